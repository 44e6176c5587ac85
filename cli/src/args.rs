//! What can be said on the command line. Help, completions and the man page are made of it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::outcome::{Failure, Result};

/// Locks on Redis for shells, cron and CI jobs.
///
/// A lock is known by its KEY, which is its key in Redis; programs that use the crate leasehold, or
/// Java's Redisson, share it.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
pub(super) struct Args {
    /// Say only what went wrong on standard error; that somebody else has the lock, the status tells
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    /// Tell each step of run on standard error; twice: with what the library logs, of all commands
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,

    #[command(flatten)]
    pub(super) redis: RedisArgs,

    #[command(subcommand)]
    pub(super) command: Command,
}

/// Which Redis, and how it is deployed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct RedisArgs {
    /// redis://[user:password@]host[:port][/database], rediss:// with TLS, or redis+unix:///path;
    /// several with commas between. Else REDIS_URL, else redis://127.0.0.1:6379. A password is safer
    /// in the environment, where other users cannot read it
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_URL",
        hide_env_values = true,
        value_name = "URL[,URL..]"
    )]
    pub(super) url: Option<String>,

    /// The URLs are sentinels, which know the master by this name
    #[arg(long, global = true, env = "LEASEHOLD_SENTINEL", value_name = "MASTER")]
    pub(super) sentinel: Option<String>,

    /// The URLs are servers of one cluster
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_CLUSTER",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) cluster: bool,

    /// The URLs are independent servers, three, five or more, of which more than half must grant a lock
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_REDLOCK",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) redlock: bool,

    /// So many replicas must have a lock within 100 ms before it counts
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_MIN_REPLICAS",
        value_name = "NUMBER"
    )]
    pub(super) min_replicas: Option<u32>,

    /// The user for the servers that locks are on, if not that of the URL; its password is
    /// LEASEHOLD_PASSWORD in the environment. Both variables leave a URL alone that has a password,
    /// except that of sentinels
    #[arg(long, global = true, env = "LEASEHOLD_USER", value_name = "NAME")]
    pub(super) user: Option<String>,

    /// Whether the command line names the user, not the environment.
    #[arg(skip)]
    pub(super) names_user: bool,

    /// Certificates of the authorities to trust for rediss://, PEM; else the system's
    #[arg(long, global = true, env = "LEASEHOLD_CACERT", value_name = "FILE")]
    pub(super) cacert: Option<PathBuf>,

    /// The certificate to show to a server that asks for one, PEM
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_CERT",
        value_name = "FILE",
        requires = "cert_key"
    )]
    pub(super) cert: Option<PathBuf>,

    /// The private key of --cert, PEM
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_CERT_KEY",
        value_name = "FILE",
        requires = "cert"
    )]
    pub(super) cert_key: Option<PathBuf>,

    /// How long Redis may take for one answer
    #[arg(long, global = true, env = "LEASEHOLD_TIMEOUT", default_value = "1s",
          value_parser = duration, value_name = "DURATION")]
    pub(super) timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a command while holding a lock
    ///
    /// The command runs without a shell, in a process group of its own, with the standard input, output and
    /// error of leasehold, the terminal, if there is one, and LEASEHOLD_KEY in its environment. HUP, INT, QUIT,
    /// TERM, ALRM, VTALRM, PROF, IO, XCPU, XFSZ, SYS and PWR are passed on to its group, and USR1, USR2, WINCH, TSTP
    /// and CONT; while the lock is waited for, the first twelve end the wait. What is ignored
    /// stays ignored in the command (nohup), but PIPE is at its default there. The status is the
    /// command's, 128 + n if signal n ended it. If HUP, INT, QUIT or TERM was passed on and the command ends before
    /// others of its group, the lock is kept until they have ended, too, or --kill-after after the signal. Whom else
    /// the command leaves behind, nobody waits for. What moves to a process group or session of its own is neither
    /// told, stopped, killed nor waited for: what a script runs by timeout (write timeout --foreground) or by setsid,
    /// and the jobs of an interactive shell.
    ///
    /// If Redis confirms no renewal of the lock, the command gets TERM, then KILL, both before its lease can be
    /// over on the server: KILL a sixtieth of the lease before that, TERM --kill-after before KILL, but in
    /// the last sixth of the lease.
    ///
    /// A lock that was deleted, or taken by somebody else, is noticed within a second, or a tenth of the lease if
    /// that is less. Then the command gets TERM at once, and KILL after --kill-after, or a sixth of the lease if that
    /// is less, or what was left of it. A newcomer can have such a lock at once, before the command is dead.
    /// Where that would do harm, let what the command writes to refuse old tokens (--fenced), or make --kill-after
    /// and --lease short.
    ///
    /// If leasehold itself is killed, Linux kills the command, but not what the command has started. While
    /// leasehold alone is stopped it can do nothing of this: by STOP, or with a pipeline in the background of which
    /// another command asks for the terminal. Ctrl-Z on a terminal stops both, and nothing is
    /// renewed: after one lease somebody else can have the lock, and a command that is continued then is killed,
    /// with status 76. STOP sent to a command that has the terminal stops leasehold, too: continue that (fg), not the
    /// command alone, whose lock nobody would renew. So do TSTP sent to leasehold on a terminal, and a command in the
    /// background that asks for the terminal. Stopped by anybody else, a command keeps its lock.
    ///
    /// A command that changes its user (sudo, su, runuser) outlives leasehold that is killed, and only root can end it. So
    /// change the user outside: runuser -u app -- leasehold run .., or sudo
    /// --preserve-env=LEASEHOLD_URL,LEASEHOLD_PASSWORD leasehold run .. (else sudo drops what the environment says of
    /// Redis; all users can read a command line). One whose file is set-group-ID or has capabilities outlives a killed
    /// leasehold, too.
    ///
    /// A Redis that does not answer is given up after ten times --timeout; with --wait or --no-wait when the
    /// wait is over, or after one --timeout if that is longer.
    Run(RunArgs),
    /// List the locks that are held
    ///
    /// A lock is of kind fenced if its holds were ever numbered, whoever holds it now, and unknown (null in JSON) if
    /// the user may not read that. In a cluster, locks on their way to a server that has no slot yet are missing.
    List(ListArgs),
    /// Show who holds a lock
    Show(ShowArgs),
    /// Free a lock, whoever holds it
    ///
    /// Who says yes to a hold that is over by then frees no other: just before the end it is looked whether the lock
    /// was taken anew meanwhile. If the same thread took it, only a fenced lock shows that.
    Break(BreakArgs),
    /// Watch the locks that are held
    Watch(WatchArgs),
    /// Check the server for what hurts locks
    ///
    /// Each check is ok, a note, a warning, a failure, or unknown: what it asks is not allowed, which locks do not
    /// need. Exit status: 0 if nothing failed, 1 if something did, 69 if no server could be reached.
    Doctor(DoctorArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

impl Command {
    /// What the environment says of Redis is of no matter then.
    fn asks_no_redis(&self) -> bool {
        matches!(self, Self::Completions(_) | Self::Man)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// How long to wait for the lock; without it, for ever
    #[arg(long, value_parser = duration, value_name = "DURATION", conflicts_with = "no_wait")]
    pub(super) wait: Option<Duration>,

    /// Do not wait: status 75 if somebody else has the lock
    #[arg(long)]
    pub(super) no_wait: bool,

    /// How long Redis keeps the lock for a machine that died; renewed while the command runs
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub(super) lease: Duration,

    /// End the command after so long
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(super) max_hold: Option<Duration>,

    /// How long a command that is ended has between TERM and KILL; less where its lease would be
    /// over sooner, and a sixth of the lease at most once the lock is lost
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub(super) kill_after: Duration,

    /// Keep the lock for so long, counted from when it was had, even if the command ends before
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(super) at_least: Option<Duration>,

    /// Number the holds: LEASEHOLD_TOKEN in the command's environment rises with each
    #[arg(long)]
    pub(super) fenced: bool,

    /// The lock
    pub(super) key: String,

    /// What to run, and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Which locks, as a pattern of Redis: * ? [ab]
    #[arg(default_value = "*")]
    pub(super) pattern: String,

    /// One JSON object for each lock: name, kind, owner, count, ttl_ms (null if it never ends), and
    /// server if there are several
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The lock
    pub(super) key: String,

    /// As a JSON object: as of list, with token (if it was ever fenced) and listeners (if Redis tells
    /// this user); one for each server of --redlock that has it
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct BreakArgs {
    /// The lock
    pub(super) key: String,

    /// Do not ask; needed where standard input or standard error is no terminal
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Which locks, as a pattern of Redis: * ? [ab]
    #[arg(default_value = "*")]
    pub(super) pattern: String,

    /// How often to look
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub(super) every: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// A name of a lock that the user may use, to try its rights on; it is used for moments, and
    /// only if nobody holds it
    #[arg(default_value = "leasehold-doctor")]
    pub(super) key: String,

    /// One JSON object for each check: server, check, verdict (ok, note, warning, failure, unknown),
    /// found, advice (null if nothing is to be done)
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// For which shell
    pub(super) shell: Shell,
}

impl Args {
    /// The arguments, or what is wrong with them in one line. Help is no failure, but ends all the same.
    pub(super) fn parse_or_explain() -> Result<Self> {
        Self::parsed().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Failure::usage("what is to be done? Say `leasehold help` for all that there is")
            }
            _ => Failure::usage(explanation(&error)),
        })
    }

    /// With all variables but those that the environment sets to nothing, which are not set.
    fn parsed() -> Result<Self, clap::Error> {
        let is_said = |name: &OsStr| std::env::var_os(name).is_none_or(|value| !value.is_empty());
        Self::parsed_with(is_said).or_else(|error| match Self::parsed_with(|_| false) {
            Ok(args) if args.command.asks_no_redis() => Ok(args),
            _ => Err(error),
        })
    }

    /// On the command line nothing is a mistake, perhaps of a variable that is not set, and is not to lead to
    /// another Redis.
    fn parsed_with(reads: impl Fn(&OsStr) -> bool) -> Result<Self, clap::Error> {
        let mut command = <Self as clap::CommandFactory>::command().mut_args(|arg| {
            if arg.get_env().is_none_or(&reads) {
                arg
            } else {
                arg.env(None::<&str>)
            }
        });
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let is_said = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        for (id, option) in [
            ("url", "--url"),
            ("sentinel", "--sentinel"),
            ("user", "--user"),
        ] {
            if is_said(id) && matches.get_one::<String>(id).is_some_and(String::is_empty) {
                let message = format!("{option} is empty");
                return Err(command.error(ErrorKind::InvalidValue, message));
            }
        }
        let mut args = <Self as clap::FromArgMatches>::from_arg_matches(&matches)?;
        args.redis.names_user = is_said("user");
        Ok(args)
    }
}

/// What is wrong, without the usage and the hints that follow.
fn explanation(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_hint = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more ");
    let lines = text.lines().take_while(|line| !is_hint(line));
    let text: Vec<&str> = lines.map(str::trim).collect();
    let text = text.join(" ");
    let text = text.trim_start_matches("error: ");
    let said = |word: &str| std::env::args_os().any(|arg| arg == word);
    if error.kind() == ErrorKind::UnknownArgument && said("run") && !said("--") {
        return format!("{text}; of `run`, the command and its arguments come after `--`");
    }
    text.into()
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m or 500ms"))
}
