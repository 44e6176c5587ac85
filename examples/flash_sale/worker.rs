//! The two ends of a worker process, which is this program run once more.
//!
//! It says on its standard output when it is ready, each sale, and when it is done. It begins when
//! its standard input brings a line, and gives up when that ends: then its parent is no more.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process::{self, Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Barrier, mpsc::Sender},
    thread,
};

use crate::{
    Event,
    stock::{Keys, Till},
    strategy::{Queue, Strategy},
    support::{self, Result},
};

const READY: &str = "ready";
const SOLD: &str = "sold";
const DONE: &str = "done";

/// A worker, as its parent sees it: killed and reaped when dropped.
pub struct Worker {
    process: Child,
    /// Kept open as long as the process is to live.
    start: ChildStdin,
}

impl Worker {
    pub fn hire(
        url: &str,
        keys: &Keys,
        strategy: Strategy,
        threads: u16,
        events: Sender<Event>,
    ) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command
            .env("REDIS_URL", url)
            .args([
                "--worker",
                keys.prefix(),
                "--strategy",
                strategy.name(),
                "--threads",
                &threads.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = support::shield_from_terminal(&mut command).spawn()?;
        let start = process.stdin.take().expect("it is piped");
        let reports = process.stdout.take().expect("it is piped");
        thread::spawn(move || pass_on(reports, &events));
        Ok(Self { process, start })
    }

    pub fn start(&mut self) -> Result<()> {
        Ok(writeln!(self.start)?)
    }

    /// Waits until a worker that is done has gone of itself.
    pub fn leave(&mut self) -> Result<()> {
        let status = self.process.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a worker ended with {status}").into())
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pass_on(reports: ChildStdout, events: &Sender<Event>) {
    for report in BufReader::new(reports).lines().map_while(io::Result::ok) {
        let event = match report.as_str() {
            READY => Event::Ready,
            SOLD => Event::Sold,
            DONE => Event::Done,
            _ => continue,
        };
        let _ = events.send(event);
        if event == Event::Done {
            return;
        }
    }
    let _ = events.send(Event::WorkerDied);
}

/// What a worker does, from its first breath to its last.
pub fn work(keys: &Keys, strategy: Strategy, threads: u16) -> Result<()> {
    let url = env::var("REDIS_URL")?;
    let queue = Queue::new(strategy, &url, keys)?;
    let tills = (0..threads)
        .map(|_| Till::open(&url, keys))
        .collect::<Result<Vec<_>>>()?;
    println!("{READY}");
    await_start()?;
    sell_all(&queue, tills)?;
    println!("{DONE}");
    Ok(())
}

fn await_start() -> Result<()> {
    let mut input = io::stdin().lock();
    if input.read_line(&mut String::new())? == 0 {
        return Err("the parent is gone before the sale".into());
    }
    drop(input);
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(1);
    });
    Ok(())
}

/// One seller a thread, until nothing is left. All begin at once.
fn sell_all(queue: &Queue, tills: Vec<Till>) -> Result<()> {
    let start = Barrier::new(tills.len());
    let sell = |mut till: Till| {
        start.wait();
        while queue.sell_one(&mut till)? {
            println!("{SOLD}");
        }
        Ok(())
    };
    let sell = &sell;
    thread::scope(|scope| {
        let sellers: Vec<_> = tills
            .into_iter()
            .map(|till| scope.spawn(move || sell(till)))
            .collect();
        sellers
            .into_iter()
            .try_for_each(|seller| seller.join().expect("no seller panics"))
    })
}
