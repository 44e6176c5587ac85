//! Makes clients from the command line and the environment.

use std::env::VarError;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use redis::IntoConnectionInfo;

use super::args::RedisArgs;
use super::outcome::{Failure, Result};
use leasehold::{Credentials, Error, LockClient, LockClientBuilder, RedLock};

/// The variables that `run` removes from the environment of its command.
pub(super) const CREDENTIALS: [&str; 2] = ["LEASEHOLD_URL", "LEASEHOLD_PASSWORD"];

/// The variable that `run` sets if it has removed one of [`CREDENTIALS`].
pub(super) const REMOVED: &str = "LEASEHOLD_CREDENTIALS_REMOVED";

/// How long a lock waits for the confirmations of replicas.
const REPLICAS_TIMEOUT: Duration = Duration::from_millis(100);

/// How often Redis is asked whether it still has a lock. A lock that was deleted is noticed within
/// this time, if the servers reply.
pub(super) fn confirm_every(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(100), Duration::from_secs(1))
}

/// One client, or one for each server of a Redlock.
pub(super) fn clients(args: &RedisArgs, lease: Option<Duration>) -> Result<Vec<LockClient>> {
    // Not a conflict of clap, for which LEASEHOLD_CLUSTER=0 would count as given.
    let given = [args.sentinel.is_some(), args.cluster, args.redlock];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err(Failure::usage(
            "--sentinel, --cluster and --redlock, or LEASEHOLD_SENTINEL, LEASEHOLD_CLUSTER and \
             LEASEHOLD_REDLOCK, exclude one another",
        ));
    }
    let urls = match &args.url {
        Some(urls) => Some(urls.clone()),
        None if variable(REMOVED)?.is_some() => {
            return Err(Failure::usage(
                "the leasehold run that started this command has removed LEASEHOLD_URL or \
                 LEASEHOLD_PASSWORD from its environment; write leasehold run --keep-credentials \
                 there, or name Redis by --url here",
            ));
        }
        None => variable("REDIS_URL")?,
    };
    let urls = split(urls.as_deref().unwrap_or("redis://127.0.0.1:6379"));
    // User and password in the URLs of sentinels are those of the sentinels.
    let builders = match &args.sentinel {
        Some(master) => vec![(None, LockClient::builder_sentinel(&urls, master))],
        None if args.cluster => vec![(urls.first(), LockClient::builder_cluster(&urls))],
        None if urls.len() > 1 && !args.redlock => {
            let message = "several URLs need --sentinel MASTER, --cluster or --redlock";
            return Err(Failure::usage(message));
        }
        None => urls
            .iter()
            .map(|url| (Some(url), LockClient::builder(url)))
            .collect(),
    };
    let clients = builders.into_iter().map(|(url, builder)| {
        let log_in = log_in(args, url)?;
        build(builder, log_in, args, lease)
    });
    let clients: Vec<LockClient> = clients.collect::<Result<_>>()?;
    if args.redlock {
        check_majority(&clients)?;
    }
    Ok(clients)
}

/// Refuses the lists of servers that a Redlock refuses, also for commands that only look.
fn check_majority(clients: &[LockClient]) -> Result<()> {
    // This checks the servers, and then finds that this thread holds nothing. No I/O.
    match RedLock::new(clients, "k").unlock() {
        Err(error @ Error::InvalidArgument { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// User and password.
struct LogIn {
    user: Option<String>,
    password: String,
    /// The file that has the password, and may have another one later.
    file: Option<PathBuf>,
}

/// User and password, unless those of the URL count. The environment only completes a URL, because
/// it may have been set for another Redis.
fn log_in(args: &RedisArgs, url: Option<&String>) -> Result<Option<LogIn>> {
    let (user, of_url) = url.and_then(|url| of_url(url)).unwrap_or_default();
    let of_environment = variable("LEASEHOLD_PASSWORD")?;
    let is_of_url = of_url.is_some() && !args.names_user;
    let conflicts = match args.names_password_file {
        true => of_url.is_some() || of_environment.is_some(),
        false => args.password_file.is_some() && of_environment.is_some() && !is_of_url,
    };
    if conflicts {
        return Err(Failure::usage(
            "--password-file, LEASEHOLD_PASSWORD and a password in the URL exclude one another",
        ));
    }
    if is_of_url {
        return Ok(None);
    }
    let user = user.filter(|_| !args.names_user);
    let user = user.or_else(|| args.user.clone());
    let password = match &args.password_file {
        Some(file) => Some(first_password(file)?),
        None => of_environment,
    };
    match password {
        Some(password) => Ok(Some(LogIn {
            user,
            password,
            file: args.password_file.clone(),
        })),
        None if args.user.is_some() => Err(Failure::usage(
            "--user needs its password in LEASEHOLD_PASSWORD or --password-file",
        )),
        None => Ok(None),
    }
}

/// The password that the file had first. It is read once for all clients: a pipe has it only once.
fn first_password(file: &Path) -> Result<String> {
    static FIRST: OnceLock<String> = OnceLock::new();
    if FIRST.get().is_none() {
        // What the library says about its provider would not name the file as a mistake.
        let _ = FIRST.set(read_password(file).map_err(Failure::usage)?);
    }
    Ok(FIRST.get().cloned().unwrap_or_default())
}

/// User and password of a URL, if it can be read.
fn of_url(url: &str) -> Option<(Option<String>, Option<String>)> {
    let mut url = redis::parse_redis_url(url.trim())?;
    if ["rediss", "valkeys"].contains(&url.scheme()) {
        // `redis` reads URLs with TLS only if its own TLS is built in.
        url.set_scheme("redis").ok()?;
    }
    // `redis` reads these parameters of a socket only.
    let parameter = |wanted| {
        let found = url.query_pairs().find(|(name, _)| name == wanted)?;
        Some(found.1.into_owned())
    };
    let (user, password) = (parameter("user"), parameter("pass"));
    let server = url.into_connection_info().ok()?;
    let settings = server.redis_settings();
    Some((
        settings.username().map(Into::into).or(user),
        settings.password().map(Into::into).or(password),
    ))
}

fn build(
    mut builder: LockClientBuilder,
    log_in: Option<LogIn>,
    args: &RedisArgs,
    lease: Option<Duration>,
) -> Result<LockClient> {
    builder = builder
        .command_timeout(args.timeout)
        .connect_timeout(args.timeout);
    if let Some(lease) = lease {
        builder = builder
            .watchdog_lease(lease)
            .confirm_every(confirm_every(lease));
    }
    if let Some(replicas) = args.min_replicas {
        builder = builder.min_replicas(replicas, REPLICAS_TIMEOUT);
    }
    if let Some(LogIn {
        user,
        password,
        file,
    }) = log_in
    {
        builder = match file {
            None => builder.credentials(user.as_deref(), &password),
            Some(file) => {
                let first = Mutex::new(Some(password));
                builder.credentials_provider(move || {
                    let first = first.lock().take();
                    let password = first.map_or_else(|| read_password(&file), Ok)?;
                    Ok(match &user {
                        Some(user) => Credentials::user(user, password),
                        None => Credentials::password(password),
                    })
                })
            }
        };
    }
    if let Some(file) = &args.cacert {
        builder = builder.ca_certificates(read(file)?);
    }
    if let (Some(chain), Some(key)) = (&args.cert, &args.cert_key) {
        builder = builder.client_certificate(read(chain)?, read(key)?);
    }
    Ok(builder.build()?)
}

/// The password in a file, without the newline at its end. The error contains nothing of it, and no
/// name without a folder, which can be the password itself.
fn read_password(file: &Path) -> Result<String, String> {
    let shown = Some(file).filter(|file| file.components().count() > 1);
    let shown = shown.unwrap_or(Path::new("--password-file")).display();
    let text = std::fs::read_to_string(file);
    let mut text = text.map_err(|error| format!("{shown}: {error}"))?;
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.trim_end_matches('\r').len());
    }
    match text.is_empty() {
        true => Err(format!("{shown}: the file has no password")),
        false => Ok(text),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// A variable of the environment. An empty one counts as unset. One that is not UTF-8 is an error,
/// and not unset, because that could lead to another Redis.
fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
    }
}

/// Splits at commas before a URL. A password can contain a comma, too.
fn split(urls: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in urls.split(',') {
        match found.last_mut() {
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => found.push(part.trim().into()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{of_url, split};

    #[test]
    fn user_and_password_are_read_with_and_without_tls() {
        let pair = |user: Option<&str>, password: Option<&str>| {
            Some((user.map(str::to_owned), password.map(str::to_owned)))
        };
        for (url, expected) in [
            ("redis://h", pair(None, None)),
            (" rediss://u@h ", pair(Some("u"), None)),
            ("VALKEYS://u:p%23w@h:1/2", pair(Some("u"), Some("p#w"))),
            ("redis+unix:///s?user=u&pass=p", pair(Some("u"), Some("p"))),
            ("rediss://h?user=u&pass=p", pair(Some("u"), Some("p"))),
            ("redis://u@h?pass=p", pair(Some("u"), Some("p"))),
            ("h:1", None),
        ] {
            assert_eq!(of_url(url), expected, "{url}");
        }
    }

    #[test]
    fn urls_are_split_where_one_follows() {
        for (given, expected) in [
            ("redis://a", &["redis://a"][..]),
            (
                "redis://a, rediss://b:1/2",
                &["redis://a", "rediss://b:1/2"],
            ),
            ("redis://:p,w@a,redis://b", &["redis://:p,w@a", "redis://b"]),
            ("valkey://a,valkeys://b", &["valkey://a", "valkeys://b"]),
        ] {
            assert_eq!(split(given), expected, "{given}");
        }
    }
}
