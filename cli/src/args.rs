//! The command line. The help, the completions and the manual page are made from it.

mod redis;
mod run;

use std::ffi::OsStr;
use std::time::Duration;

pub(super) use redis::RedisArgs;
pub(super) use run::{HoldArgs, Kind, LockArgs, RunArgs};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ColorChoice, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use super::mistakes;
use super::name;
use super::outcome::Result;

/// Locks on Redis for shells, cron and CI jobs.
///
/// KEY is the name of a lock and its key in Redis. Programs that use the crate leasehold or Java's
/// Redisson share the lock.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
pub(super) struct Args {
    /// Write only errors; the exit status alone reports that the lock is held
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    /// Write each step of run and hold to standard error; twice: also the log of the library
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,

    /// Colors in doctor and list: always, never, or auto, on a terminal without NO_COLOR
    #[arg(long, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true)]
    pub(super) color: ColorChoice,

    #[command(flatten)]
    pub(super) redis: RedisArgs,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a command while holding a lock
    ///
    /// The command runs without a shell. It has the standard input, output and error of leasehold,
    /// and LEASEHOLD_KEY in its environment, but not LEASEHOLD_URL and LEASEHOLD_PASSWORD, unless
    /// --keep-credentials is given. leasehold passes HUP, INT, QUIT, TERM, ALRM, VTALRM, PROF, IO,
    /// XCPU, XFSZ, SYS, PWR, USR1, USR2, WINCH and CONT on to it. While leasehold waits for the
    /// lock, the first twelve of them end the wait. A signal that is ignored stays ignored in the
    /// command (nohup); PIPE has its default action there. The exit status is that of the command,
    /// or 128 + n if signal n ended it.
    ///
    /// The command has a process group of its own, and all signals go to the group. If the command
    /// ends after leasehold got HUP, INT, QUIT or TERM, and before other processes of its group,
    /// leasehold keeps the lock until they have ended, too, but no longer than --kill-after. It does
    /// not wait for other processes that the command leaves behind. Processes that leave the process
    /// group get no signal, and leasehold does not wait for them: those that a script starts by
    /// timeout (write timeout --foreground) or setsid.
    ///
    /// In the foreground of a terminal, the command stays in the process group of leasehold, as with
    /// timeout --foreground: it can read the terminal, and Ctrl-C and Ctrl-Z reach both. There,
    /// leasehold does not pass HUP, INT, QUIT and WINCH on, because the terminal sends them to both.
    /// All signals of leasehold go to the command alone, also TERM and KILL after a loss: processes
    /// that the command started are not ended. A command that is started in the background cannot read the terminal, also not after
    /// fg, and Ctrl-Z does not stop it.
    ///
    /// If Redis does not confirm renewals of the lock, leasehold sends TERM and then KILL, both
    /// before the lease can end on the server: KILL a sixtieth of the lease before its end, and
    /// TERM --kill-after before KILL, but only in the last sixth of the lease.
    ///
    /// If the lock was deleted, or another client acquired it, leasehold notices this within a
    /// second, or a tenth of the lease if that is shorter, but at least 100 ms. It sends TERM at
    /// once, and KILL after --kill-after, a sixth of the lease, or the rest of the lease, whichever
    /// is shortest. Another client can acquire the lock before the command has ended. If that does
    /// harm, let the store that the command writes to refuse old tokens (--fenced), or make
    /// --kill-after and --lease short.
    ///
    /// While leasehold is stopped, by Ctrl-Z or STOP, nothing renews the lease. After one lease,
    /// another client can acquire the lock. When leasehold is continued then, it says that the lock
    /// was lost, and ends the command. Stop no leasehold whose command runs on. A command that is
    /// stopped alone keeps its lock.
    ///
    /// If leasehold itself is killed, Linux kills the command, but not the processes that the
    /// command started.
    ///
    /// A command that changes its user (sudo, su, runuser) outlives a killed leasehold, and only
    /// root can end it. So change the user outside: runuser -u app -- leasehold run .., or sudo
    /// --preserve-env=LEASEHOLD_URL,LEASEHOLD_PASSWORD leasehold run .. Without --preserve-env,
    /// sudo removes the settings for Redis, and all users can read those on a command line. A
    /// program that is set-group-ID or has capabilities outlives a killed leasehold, too.
    ///
    /// If Redis does not reply, leasehold gives up after ten times --timeout. With --wait or
    /// --no-wait it gives up at the end of the wait, or after one --timeout if that is longer.
    #[command(override_usage = "leasehold run [OPTIONS] <KEY> -- <COMMAND>...")]
    Run(RunArgs),
    /// Hold a lock until standard input ends
    ///
    /// When the lock is acquired, leasehold prints one line: held, KEY, and the token if the lock
    /// is fenced. It releases the lock when standard input ends, or after a signal that would end
    /// the wait of run, and then ends with status 0, or 128 + n after signal n. What is typed or
    /// written to standard input does not matter. A standard input that is /dev/null, as in jobs of
    /// cron and systemd, is refused: there, write leasehold run KEY -- sleep infinity.
    ///
    /// If the lock is lost, leasehold ends at once with status 76. If it was deleted, or another
    /// client acquired it, leasehold notices this within a second, or a tenth of the lease if that
    /// is shorter, but at least 100 ms. Only its end reports the loss: the program that relies on
    /// the lock must check for it. run is safer, because it ends the command.
    ///
    /// While leasehold is stopped, by Ctrl-Z or STOP, nothing renews the lease.
    Hold(HoldArgs),
    /// List the locks that are held
    ///
    /// The kind is what Redis shows: reentrant; fenced if any hold of the lock ever had a fencing
    /// token; fair if clients wait in its queue; read or write; permits for a semaphore of which
    /// permits are leased; and unknown (null in JSON) if the user may not read the token. A fair
    /// lock for which no client waits looks the same in Redis as a reentrant lock. Semaphores and
    /// latches without leases are plain numbers, which only --all lists. In a cluster, the list
    /// lacks locks that move to a server without slots.
    ///
    /// On a terminal, OWNER is the host and the process of the owner if they are known: if it is a
    /// client of leasehold, and if the user may use CLIENT LIST. For that, each server lists all
    /// its connections, which takes one to three milliseconds for 1,000 of them.
    List(ListArgs),
    /// Show who holds a lock
    ///
    /// Of a fair lock, it also shows the clients that wait, in their order; of a read-write lock,
    /// each reader; of a semaphore whose permits have leases, the id of each leased permit. A key
    /// that is a number is shown as such: it may be a semaphore or a latch. At most 1,000 clients
    /// or permits are shown.
    Show(ShowArgs),
    /// Free a lock that any client holds
    ///
    /// leasehold asks first, and looks at the lock again after the answer. If another client holds
    /// the lock by then, nothing is freed. If the same thread has acquired it again, only a fenced
    /// lock shows that.
    ///
    /// A read-write lock is freed for its writer, or for all its readers. Of a semaphore whose
    /// permits have leases, one permit is ended: leasehold break KEY PERMIT, with an id that show
    /// prints. Its holder notices that within about a second.
    Break(BreakArgs),
    /// Show or set the number of permits of a semaphore
    ///
    /// The semaphore is one of run --kind permits=N, whose permits have leases. Without N, its
    /// number of permits is shown, and how many of them are available and leased. With N, it has N
    /// permits from now on, those that are leased included. If more are leased, none is taken from
    /// its holder: the number of available permits is negative until enough of them are released.
    ///
    /// This also repairs a semaphore whose leases were lost in Redis, so that it lacks their
    /// permits.
    ///
    /// In Redis, a semaphore without leases is a number like any other. Of a latch, and of a
    /// semaphore whose permits have no leases, N sets the number itself: of such a semaphore, the
    /// permits that are free.
    Permits(PermitsArgs),
    /// Watch the locks that are held
    Watch(WatchArgs),
    /// Check the servers for problems with locks
    ///
    /// It logs in to each server, and checks its role, whether it evicts keys, and the speed of its
    /// clock. Then it uses each kind of lock for a moment: what Redis refuses shows which permissions
    /// the user lacks. The last check, rights, is about commands that clients need later.
    ///
    /// The result of a check is ok, warning, failure, or unknown if the user may not read what it
    /// needs. Exit status: 0 if no check failed, 1 if one failed, 69 if no server could be reached.
    Doctor(DoctorArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Which locks: a pattern of Redis with * ? [ab]
    #[arg(default_value = "*", value_parser = name::parse)]
    pub(super) pattern: String,

    /// Also keys that are numbers, which may be semaphores, latches, or data of other programs:
    /// their bytes do not differ
    #[arg(long)]
    pub(super) all: bool,

    /// One JSON object for each lock: name, kind, owner
    /// (null if it is not exactly one), holder (host and process_id of the owner, if they are
    /// known), count (of several readers, their sum; of a semaphore, the leased permits), ttl_ms
    /// (null if it never expires), waiting (fair), readers (read, write), available (permits),
    /// number (number), and server if there are several
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The lock, as list prints it: $'..' for a name with special characters, as in bash
    #[arg(value_parser = name::parse)]
    pub(super) key: String,

    /// One JSON object with the keys of list, with token (if the lock was ever fenced), queue (the
    /// clients that wait for a fair lock, in their order, each with place and ttl_ms), read_holds
    /// (the readers of a read-write lock, each with owner, count and ttl_ms), permits (the leased
    /// permits, each with id and ttl_ms), and listeners (if the user may read their number); one
    /// object for each server of --redlock that has the lock
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct BreakArgs {
    /// The lock or the semaphore, as list prints it
    #[arg(value_parser = name::parse)]
    pub(super) key: String,

    /// Of a semaphore: the id of the permit to end, as show prints it
    #[arg(value_parser = permit)]
    pub(super) permit: Option<u128>,

    /// Do not ask; needed if standard input or standard error is not a terminal
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct PermitsArgs {
    /// The semaphore
    #[arg(value_parser = name::parse)]
    pub(super) key: String,

    /// How many permits it has from now on, leased ones included
    #[arg(value_name = "N")]
    pub(super) permits: Option<u32>,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Which locks: a pattern of Redis with * ? [ab]
    #[arg(default_value = "*", value_parser = name::parse)]
    pub(super) pattern: String,

    /// The time between two looks
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub(super) every: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// The beginning of names that the user may use; doctor acquires locks whose names begin so,
    /// and that no other client uses
    #[arg(default_value = "leasehold-doctor")]
    pub(super) key: String,

    /// One JSON object for each check: server, check, verdict (ok, warning, failure, unknown),
    /// found, advice (null if there is nothing to do)
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: Shell,
}

impl Args {
    /// The definition of the arguments. Those of the program itself can follow each command.
    pub(super) fn definition() -> clap::Command {
        Self::command().mut_args(|arg| arg.global(true))
    }

    /// The definition for `--help`: that of the options of run and hold is long enough. The manual
    /// has their descriptions.
    fn with_short_help() -> clap::Command {
        let short = |command: clap::Command| {
            let rest = "leasehold man describes signals, a lost lock, and the exit status.";
            command.long_about(None).after_help(rest)
        };
        let all = Self::definition().mut_subcommand("run", short);
        all.mut_subcommand("hold", short)
    }

    /// The arguments, or one line that says why they are invalid. Prints help, the version, and an
    /// overview if there is no command, and exits.
    pub(super) fn parse_or_explain() -> Result<Self> {
        Self::parsed().map_err(|error| mistakes::failure(&error, Self::definition()))
    }

    /// The arguments and the variables of the environment. An empty variable counts as unset.
    fn parsed() -> Result<Self, clap::Error> {
        let is_set = |name: &OsStr| std::env::var_os(name).is_none_or(|value| !value.is_empty());
        Self::parsed_with(is_set).or_else(|error| match Self::parsed_with(|_| false) {
            // These need no Redis, so settings of Redis in the environment do not matter.
            Ok(args) if matches!(args.command, Command::Completions(_) | Command::Man) => Ok(args),
            _ => Err(error),
        })
    }

    /// An empty value on the command line is an error: it may come from an unset variable, and must
    /// not lead to another Redis.
    fn parsed_with(reads: impl Fn(&OsStr) -> bool) -> Result<Self, clap::Error> {
        let mut command = Self::with_short_help().mut_args(|arg| match arg.get_env() {
            Some(name) if !reads(name) => arg.env(None::<&str>),
            _ => arg,
        });
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let is_set = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        for id in ["url", "sentinel", "user"] {
            if is_set(id) && matches.get_one::<String>(id).is_some_and(String::is_empty) {
                let message = format!("--{id} is empty");
                return Err(command.error(ErrorKind::InvalidValue, message));
            }
        }
        let mut args = <Self as clap::FromArgMatches>::from_arg_matches(&matches)?;
        args.redis.names_user = is_set("user");
        args.redis.names_password_file = is_set("password_file");
        Ok(args)
    }
}

fn permit(text: &str) -> Result<u128, String> {
    let permit = u128::from_str_radix(text, 16).ok();
    permit
        .filter(|_| text.len() == 32)
        .ok_or_else(|| "an id has 32 hexadecimal digits; leasehold show lists them".into())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m or 500ms"))
}
