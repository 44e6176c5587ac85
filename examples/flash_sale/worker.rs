//! A worker process, which is another run of this program, and its parent's handle.
//!
//! On its standard output the worker reports that it is ready, each sale, and that it is done. It
//! begins when it reads a line from its standard input. It exits when that input ends, because its
//! parent has died.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process::{self, Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Barrier, mpsc::Sender},
    thread,
    time::Duration,
};

use crate::{
    Event,
    stock::{Keys, Seller},
    strategy::{Protection, Strategy},
    support::{self, Result},
};

/// How long a thread does other work after a sale, without the lock.
pub const OTHER_WORK: Duration = Duration::from_micros(500);

const READY: &str = "ready";
const SOLD: &str = "sold";
const DONE: &str = "done";

/// The parent's handle of a worker. Dropping it kills the worker.
pub struct Worker {
    process: Child,
    /// The worker exits when this pipe is closed.
    input: ChildStdin,
}

impl Worker {
    pub fn spawn(
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
        let input = process.stdin.take().expect("stdin and stdout are piped");
        let reports = process.stdout.take().expect("stdin and stdout are piped");
        thread::spawn(move || forward(reports, &events));
        Ok(Self { process, input })
    }

    pub fn start(&mut self) -> Result<()> {
        Ok(writeln!(self.input)?)
    }

    /// Waits until the process has ended after its sale.
    pub fn wait(&mut self) -> Result<()> {
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

fn forward(reports: ChildStdout, events: &Sender<Event>) {
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

/// The main function of a worker.
pub fn work(keys: &Keys, strategy: Strategy, threads: u16) -> Result<()> {
    let url = env::var("REDIS_URL")?;
    let protection = Protection::new(strategy, &url, keys)?;
    let sellers = (0..threads)
        .map(|_| Seller::open(&url, keys))
        .collect::<Result<Vec<_>>>()?;
    println!("{READY}");
    await_start()?;
    sell_all(&protection, sellers)?;
    println!("{DONE}");
    Ok(())
}

fn await_start() -> Result<()> {
    let mut input = io::stdin().lock();
    if input.read_line(&mut String::new())? == 0 {
        return Err("the parent ended before the sale".into());
    }
    drop(input);
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(1);
    });
    Ok(())
}

/// Sells with one thread for each seller until the stock is empty. All threads begin at once.
fn sell_all(protection: &Protection, sellers: Vec<Seller>) -> Result<()> {
    let start = Barrier::new(sellers.len());
    let sell = |mut seller: Seller| {
        start.wait();
        while protection.sell_one(&mut seller)? {
            println!("{SOLD}");
            thread::sleep(OTHER_WORK);
        }
        Ok(())
    };
    let sell = &sell;
    thread::scope(|scope| {
        let threads: Vec<_> = sellers
            .into_iter()
            .map(|seller| scope.spawn(move || sell(seller)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no seller panics"))
    })
}
