//! The Rust program that does what `src/main/java/interop/Main.java` does.
//!
//! A command is `THREAD NAME WORD...`, its reply `THREAD MICROSECONDS RESULT`. Each thread runs its
//! commands in their order. Times are in milliseconds, and the lease 0 is renewed.

mod loads;

use std::collections::HashMap;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use leasehold::{Lease, Lock, LockClient, LockGuard, PermitGuard};

use crate::Result;
use loads::median;

/// The argument that makes a process a worker.
pub const ROLE: &str = "worker";

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
    let client = LockClient::builder(url).watchdog_lease(millis(lease)?);
    let client = client.build()?;
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
        let words: Vec<&str> = command.split(' ').collect();
        let result = match words[0].split_once('-') {
            Some(("semaphore", what)) => session.semaphore(what, &words[1..]),
            Some(("leased", what)) => session.leased(what, &words[1..]),
            Some(("latch", what)) => session.latch(what, &words[1..]),
            _ => session.lock(words[0], &words[1..]),
        };
        let micros = start.elapsed().as_micros();
        let result = result.unwrap_or_else(|error| format!("error {}", describe(&*error)));
        let reply = format!("{number} {micros} {}\n", result.replace('\n', " "));
        // Without a parent no reply is needed.
        let _ = std::io::stdout().lock().write_all(reply.as_bytes());
    }
}

/// The name of an error that a scenario expects, as in Java, and its text.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    use leasehold::Error;
    let name = match error.downcast_ref() {
        Some(Error::Lost { .. }) => "Lost: ",
        Some(Error::NotHeld { .. }) => "NotHeld: ",
        _ => "",
    };
    format!("{name}{error}")
}

fn text(result: leasehold::Result<impl ToString>) -> Result<String> {
    Ok(result?.to_string())
}

fn done<T>(result: leasehold::Result<T>) -> Result<String> {
    result?;
    Ok("ok".into())
}

fn unknown(what: &str, words: &[&str]) -> Result<String> {
    Err(format!("UnknownCommand {what} {words:?}").into())
}

fn millis(word: &str) -> Result<Duration> {
    Ok(Duration::from_millis(word.parse()?))
}

fn lease(word: &str) -> Result<Lease> {
    let lease = millis(word)?;
    Ok(if lease.is_zero() {
        Lease::RENEWED
    } else {
        Lease::fixed(lease)
    })
}

fn open(client: &LockClient, kind: &str, name: &str) -> Result<Box<dyn Lock>> {
    Ok(match kind {
        "plain" => Box::new(client.reentrant_lock(name)),
        "fenced" => Box::new(client.fenced_lock(name)),
        "fair" => Box::new(client.fair_lock(name)),
        "read" => Box::new(client.read_write_lock(name).read()),
        "write" => Box::new(client.read_write_lock(name).write()),
        "mixed-50" => read_or_write(client, name, 50),
        "mixed-90" => read_or_write(client, name, 90),
        // NAME,NAME
        "multi" => Box::new(client.multi_lock(name.split(','))),
        _ => return Err(format!("no such kind: {kind}").into()),
    })
}

/// The lock for one hold, of which this percentage only reads.
fn read_or_write(client: &LockClient, name: &str, reads: u32) -> Box<dyn Lock> {
    let locks = client.read_write_lock(name);
    if fastrand::u32(..100) < reads {
        Box::new(locks.read())
    } else {
        Box::new(locks.write())
    }
}

impl Session {
    /// The commands of locks. The first two words of most are the kind and the name of the lock.
    fn lock(&mut self, what: &str, words: &[&str]) -> Result<String> {
        match (what, words) {
            ("tokens", [name, list, holds]) => return self.tokens(name, list, holds.parse()?),
            ("readwrite", [name, key, threads, time]) => {
                return self.read_write(name, key, threads, time);
            }
            _ => {}
        }
        let [kind, name, words @ ..] = words else {
            return unknown(what, words);
        };
        let lock = open(&self.client, kind, name)?;
        let levels = self.guards.entry(format!("{kind} {name}")).or_default();
        match (what, words) {
            ("lock", []) => done(lock.acquire().map(|guard| levels.push(guard))),
            ("trylock", [wait, time]) => {
                let guard = lock.try_acquire(millis(wait)?, lease(time)?)?;
                let is_acquired = guard.is_some();
                levels.extend(guard);
                Ok(is_acquired.to_string())
            }
            ("unlock", []) => match levels.pop() {
                Some(guard) => done(guard.unlock()),
                None => done(lock.unlock()),
            },
            ("force", []) => text(self.client.force_unlock(name)),
            ("holds", []) => Ok(lock.hold_count().to_string()),
            ("contend", [counter, threads, time]) => {
                self.contend([kind, name], counter, threads, time)
            }
            ("waits", [threads, time, held]) => self.waits([kind, name], threads, time, held),
            ("pairs", [times]) => median(times, || {
                lock.lock()?;
                Ok(lock.unlock()?)
            }),
            _ => unknown(what, words),
        }
    }

    fn semaphore(&mut self, what: &str, words: &[&str]) -> Result<String> {
        let semaphore = self.client.semaphore(words.first().ok_or("no name")?);
        match (what, &words[1..]) {
            ("set", [permits]) => text(semaphore.try_set_permits(permits.parse()?)),
            ("add", [permits]) => done(semaphore.add_permits(permits.parse()?)),
            ("acquire", [permits]) => done(semaphore.acquire(permits.parse()?)),
            ("try", [permits, wait]) => {
                text(semaphore.try_acquire(permits.parse()?, millis(wait)?))
            }
            ("release", [permits]) => done(semaphore.release(permits.parse()?)),
            ("available", []) => text(semaphore.available()),
            ("drain", []) => text(semaphore.drain()),
            ("contend", load) => {
                self.share(load, || semaphore.acquire(1), |()| semaphore.release(1))
            }
            ("pairs", [times]) => median(times, || {
                semaphore.acquire(1)?;
                Ok(semaphore.release(1)?)
            }),
            (_, words) => unknown(what, words),
        }
    }

    /// The commands of semaphores whose permits have a lease.
    fn leased(&mut self, what: &str, words: &[&str]) -> Result<String> {
        let semaphore = self
            .client
            .leased_semaphore(words.first().ok_or("no name")?);
        match (what, &words[1..]) {
            ("set", [permits]) => text(semaphore.try_set_permits(permits.parse()?)),
            ("add", [permits]) => done(semaphore.add_permits(permits.parse()?)),
            ("acquire", [time]) => Ok(self.keep(semaphore.acquire_with(lease(time)?)?)),
            ("try", [wait, time]) => {
                let permit = semaphore.try_acquire(millis(wait)?, lease(time)?)?;
                Ok(permit.map_or_else(|| "null".into(), |permit| self.keep(permit)))
            }
            ("release", [id]) => {
                // Or a permit of another process.
                let permit = self.permits.remove(*id);
                let released = permit.map(|permit| permit.release().map(|()| true));
                text(released.unwrap_or_else(|| semaphore.release(id)))
            }
            ("available", []) => text(semaphore.available()),
            ("contend", load) => self.share(load, || semaphore.acquire(), PermitGuard::release),
            ("pairs", [times]) => median(times, || Ok(semaphore.acquire()?.release()?)),
            (_, words) => unknown(what, words),
        }
    }

    /// Keeps the permit until it is released, and returns its id.
    fn keep(&mut self, permit: PermitGuard) -> String {
        let id = permit.id().to_owned();
        self.permits.insert(id.clone(), permit);
        id
    }

    fn latch(&mut self, what: &str, words: &[&str]) -> Result<String> {
        let latch = self
            .client
            .count_down_latch(words.first().ok_or("no name")?);
        match (what, &words[1..]) {
            ("set", [count]) => text(latch.try_set_count(count.parse()?)),
            ("down", []) => done(latch.count_down()),
            ("count", []) => text(latch.count()),
            ("wait", []) => done(latch.wait()),
            ("try", [wait]) => text(latch.wait_for(millis(wait)?)),
            ("pairs", [times]) => median(times, || {
                latch.try_set_count(1)?;
                latch.count_down()?;
                Ok(())
            }),
            (_, words) => unknown(what, words),
        }
    }
}
