//! The Rust program that does what `src/main/java/interop/Main.java` does.
//!
//! A command is `THREAD NAME WORD...`, its reply `THREAD MICROSECONDS RESULT`. Each thread runs its
//! commands in their order.

mod fenced;
mod latches;
mod leased;
mod locks;
mod read_write;
mod semaphores;

use std::collections::HashMap;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use leasehold::{LockClient, LockGuard, PermitGuard};
use redis::Commands;

use crate::Result;

/// The argument that makes a process a worker.
pub const ROLE: &str = "worker";

/// A command. It gets the words after its name, and returns its result.
type Command = fn(&mut Session, &[&str]) -> Result<String>;

const COMMANDS: &[&[(&str, Command)]] = &[
    locks::COMMANDS,
    fenced::COMMANDS,
    read_write::COMMANDS,
    semaphores::COMMANDS,
    leased::COMMANDS,
    latches::COMMANDS,
];

/// What the commands of one thread use.
struct Session {
    client: LockClient,
    url: String,
    /// The levels of this thread, by the kind and the name of the lock.
    guards: HashMap<String, Vec<LockGuard>>,
    /// The permits of this thread, by their ids.
    permits: HashMap<String, PermitGuard>,
}

/// Runs commands until the input ends, because the parent has ended.
pub fn serve(url: &str, lease: &str) -> Result<()> {
    let lease = Duration::from_millis(lease.parse()?);
    let client = LockClient::builder(url).watchdog_lease(lease).build()?;
    let mut threads: HashMap<String, Sender<String>> = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let Some((number, command)) = line.split_once(' ') else {
            continue;
        };
        let commands = threads.entry(number.to_owned()).or_insert_with(|| {
            let (sender, commands) = unbounded();
            let (number, client, url) = (number.to_owned(), client.clone(), url.to_owned());
            thread::spawn(move || {
                let session = Session {
                    client,
                    url,
                    guards: HashMap::new(),
                    permits: HashMap::new(),
                };
                run_commands(session, &number, &commands);
            });
            sender
        });
        commands.send(command.to_owned())?;
    }
    Ok(())
}

fn run_commands(mut session: Session, number: &str, commands: &Receiver<String>) {
    for command in commands {
        let start = Instant::now();
        let result = run(&mut session, &command);
        let micros = start.elapsed().as_micros();
        let result = result.unwrap_or_else(|error| format!("error {}", describe(&*error)));
        let reply = format!("{number} {micros} {}\n", result.replace('\n', " "));
        // Without a parent no reply is needed.
        let _ = std::io::stdout().lock().write_all(reply.as_bytes());
    }
}

fn run(session: &mut Session, command: &str) -> Result<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let (name, words) = words.split_first().ok_or("an empty command")?;
    let mut commands = COMMANDS.iter().copied().flatten();
    let (_, command) = commands
        .find(|(known, _)| known == name)
        .ok_or_else(|| format!("UnknownCommand {name}"))?;
    command(session, words)
}

/// The name of an error that a scenario expects, as in Java, and its text.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    use leasehold::Error;
    let name = match error.downcast_ref() {
        Some(Error::Lost { .. }) => "Lost: ",
        Some(Error::NotHeld { .. }) => "NotHeld: ",
        Some(Error::WrongType { .. }) => "WrongType: ",
        _ => "",
    };
    format!("{name}{error}")
}

/// A word of the command.
fn word<'a>(words: &[&'a str], index: usize) -> Result<&'a str> {
    let word = words.get(index);
    word.copied().ok_or_else(|| "too few words".into())
}

/// A word of the command that is a number.
fn number(words: &[&str], index: usize) -> Result<u64> {
    Ok(word(words, index)?.parse()?)
}

/// Runs `work` on several threads, and returns the sum of their results.
fn sum_of_threads(threads: u64, work: impl Fn() -> Result<u64> + Sync) -> Result<String> {
    let sum: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let results = threads.into_iter().map(thread::ScopedJoinHandle::join);
        results
            .map(|result| result.map_err(|_| "a thread panicked")?)
            .sum::<Result<u64>>()
    })?;
    Ok(sum.to_string())
}

/// NAME GAUGE LIMIT THREADS MILLISECONDS: the number of permits that were acquired. The gauge counts
/// the threads that have one, which is an error above the limit.
fn contend<P>(
    session: &Session,
    words: &[&str],
    acquire: impl Fn() -> Result<P> + Sync,
    release: impl Fn(P) -> Result<()> + Sync,
) -> Result<String> {
    let (gauge, limit) = (word(words, 1)?, number(words, 2)?);
    let url = session.url.as_str();
    let end = Instant::now() + Duration::from_millis(number(words, 4)?);
    sum_of_threads(number(words, 3)?, || {
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let mut count = 0;
        while Instant::now() < end {
            let permit = acquire()?;
            let threads: u64 = redis.incr(gauge, 1)?;
            redis.decr::<_, _, ()>(gauge, 1)?;
            release(permit)?;
            if threads > limit {
                return Err(format!("{threads} permits").into());
            }
            count += 1;
        }
        Ok(count)
    })
}

/// Repeats `work`, and returns its median time in nanoseconds.
fn median(times: u64, mut work: impl FnMut() -> Result<()>) -> Result<String> {
    let mut took = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        work()?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let median = took.get(took.len() / 2).ok_or("repeated no times")?;
    Ok(median.as_nanos().to_string())
}
