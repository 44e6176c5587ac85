//! Locks and unlocks with one of the libraries that are written in Rust, as its parent asks.
//!
//! Arguments: the library, and the URL of Redis. `benches/peers/README.md` describes the commands.

mod apart;
mod blocking;
mod clock;
mod distributed_lock;
mod leasehold_lock;
mod redisson_lock;
mod rslock_lock;
mod section;
mod tasks;

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};

use apart::Apart;
use section::Load;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What the parent can ask for. Each call returns the words of the reply.
trait Driver {
    fn pairs(&mut self, name: &str, pairs: usize) -> Result<String>;
    fn clients(&mut self, count: usize) -> Result<()>;
    fn contend(&mut self, load: Load) -> Result<String>;
    fn apart(&mut self, load: Apart) -> Result<String>;
    fn take(&mut self, name: &str) -> Result<()>;
    fn give(&mut self, after_micros: u64) -> Result<String>;
    fn enter(&mut self, name: &str) -> Result<String>;
    fn hold(&mut self, prefix: &str, locks: usize) -> Result<()>;
}

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [library, url] = arguments.as_slice() else {
        return Err("arguments: LIBRARY URL".into());
    };
    let mut driver: Box<dyn Driver> = match library.as_str() {
        "leasehold" => Box::new(blocking::Threads::new(leasehold_lock::Peer::new, url)?),
        "redisson-rs" => Box::new(blocking::Threads::new(redisson_lock::Peer::new, url)?),
        "rslock" => Box::new(tasks::Tasks::new(rslock_lock::Peer::new, url)?),
        "distributed-lock-redis" => Box::new(tasks::Tasks::new(distributed_lock::Peer::new, url)?),
        _ => return Err(format!("{library} is not known").into()),
    };
    let mut output = io::stdout().lock();
    // The parent closes the input when it ends.
    for line in io::stdin().lock().lines() {
        let reply = match run(driver.as_mut(), &line?) {
            Ok(words) => format!("ok {words}"),
            Err(error) => format!("error {error}"),
        };
        writeln!(output, "{}", reply.trim_end().replace('\n', " "))?;
        output.flush()?;
    }
    Ok(())
}

fn run(driver: &mut dyn Driver, line: &str) -> Result<String> {
    let words: Vec<_> = line.split(' ').collect();
    let none = |()| String::new();
    match words.as_slice() {
        ["pairs", name, pairs] => driver.pairs(name, pairs.parse()?),
        ["clients", count] => driver.clients(count.parse()?).map(none),
        ["contend", load @ ..] => driver.contend(Load::parse(load)?),
        ["apart", load @ ..] => driver.apart(Apart::parse(load)?),
        ["take", name] => driver.take(name).map(none),
        ["give", micros] => driver.give(micros.parse()?),
        ["enter", name] => driver.enter(name),
        ["hold", prefix, locks] => driver.hold(prefix, locks.parse()?).map(none),
        _ => Err(format!("not a command: {line}").into()),
    }
}
