//! A paused holder writes late to a row in SQLite. Without fencing, the write undoes another
//! payment. With a fencing token in the row, the database rejects the write.

#[path = "../support/mod.rs"]
mod support;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use clap::Parser;
use leasehold::{Lease, LockClient};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{Result, Server};

const LOCK: &str = "account:1";
const LEASE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Two processes pay from one account under a lock. The first one is paused between its last check
/// and its write for longer than its lease. The second one pays meanwhile.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Run as the process that is paused: the URL of the server, and the database file
    #[arg(long, num_args = 2, hide = true)]
    paused: Option<Vec<String>>,
    /// Let the database reject late writes
    #[arg(long, hide = true)]
    fenced: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.paused {
        Some(paused) => pay_late(&paused[0], Path::new(&paused[1]), args.fenced),
        None => show(),
    };
    support::exit_code(outcome.map(|()| ExitCode::SUCCESS))
}

fn show() -> Result<()> {
    let server = Server::find_or_start()?;
    let directory = TempDir::new()?;
    for (fenced, expected) in [(false, 50), (true, 20)] {
        let words = if fenced { "with" } else { "without" };
        println!("An account of 100, two payments of 50 and 30, {words} fencing:");
        let file = directory.path().join(words);
        let account = Account::create(&file, fenced)?;
        let mut first = Paused::start(server.url(), &file, fenced)?;
        first.wait_until_paused()?;
        pay(server.url(), &account, 30)?;
        first.resume()?;
        let balance = account.read()?;
        println!("  final balance: {balance}\n");
        if balance != expected {
            return Err(format!("the balance should be {expected}").into());
        }
    }
    println!("Correct is 20. Only the database can detect a late write, by the token in the row.");
    Ok(())
}

/// Pays under the lock. It is free once the lease of the paused process has expired.
fn pay(url: &str, account: &Account, amount: i64) -> Result<()> {
    let lock = LockClient::connect(url)?.fenced_lock(LOCK);
    let lease = Lease::fixed(TIMEOUT);
    let guard = lock
        .try_acquire(TIMEOUT, lease)?
        .ok_or("the lock did not become free")?;
    let balance = account.read()?;
    guard.check()?;
    let token = guard.fencing_token();
    let done = account.write(balance - amount, token)?;
    println!(
        "  payment of {amount}: read {balance}, writes {} ({})",
        balance - amount,
        result(done)
    );
    guard.unlock()?;
    Ok(())
}

/// Pays 50, but is paused between the check of the lock and the write.
fn pay_late(url: &str, file: &Path, fenced: bool) -> Result<()> {
    let account = Account::open(file, fenced)?;
    let lock = LockClient::connect(url)?.fenced_lock(LOCK);
    let lease = Lease::fixed(LEASE);
    let guard = lock
        .try_acquire(TIMEOUT, lease)?
        .ok_or("the lock is not free")?;
    let balance = account.read()?;
    guard.check()?;
    println!("  payment of 50: read {balance}, holds the lock, is paused");
    signal(process::id(), "STOP")?;
    let done = account.write(balance - 50, guard.fencing_token())?;
    println!(
        "  payment of 50: is resumed, writes {} ({})",
        balance - 50,
        result(done)
    );
    // The lock is lost, but only a check after the pause can find that out.
    if guard.check().is_ok() {
        return Err("the lease has not expired".into());
    }
    drop(guard);
    if !done {
        pay(url, &account, 50)?;
    }
    Ok(())
}

fn result(done: bool) -> &'static str {
    if done {
        "done"
    } else {
        "rejected: a later holder has written"
    }
}

/// One row with a balance and the greatest token that wrote it.
struct Account {
    database: Connection,
    fenced: bool,
}

impl Account {
    fn create(file: &Path, fenced: bool) -> Result<Self> {
        let account = Self::open(file, fenced)?;
        account.database.execute_batch(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER);
             INSERT INTO account VALUES (1, 100, 0);",
        )?;
        Ok(account)
    }

    fn open(file: &Path, fenced: bool) -> Result<Self> {
        let database = Connection::open(file)?;
        database.busy_timeout(TIMEOUT)?;
        Ok(Self { database, fenced })
    }

    fn read(&self) -> Result<i64> {
        let select = "SELECT balance FROM account WHERE id = 1";
        Ok(self.database.query_row(select, [], |row| row.get(0))?)
    }

    /// Writes the balance. False if the row has a greater token.
    fn write(&self, balance: i64, token: u64) -> Result<bool> {
        let token = i64::try_from(token)?;
        let rows = if self.fenced {
            self.database.execute(
                "UPDATE account SET balance = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2",
                (balance, token),
            )?
        } else {
            self.database
                .execute("UPDATE account SET balance = ?1 WHERE id = 1", [balance])?
        };
        Ok(rows == 1)
    }
}

/// The process that is paused. Its standard output is printed.
struct Paused {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Paused {
    fn start(url: &str, file: &PathBuf, fenced: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--paused").arg(url).arg(file);
        command.args(fenced.then_some("--fenced"));
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("no pipe")?;
        Ok(Self {
            process,
            output: BufReader::new(output),
        })
    }

    fn wait_until_paused(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        print!("{line}");
        Ok(())
    }

    fn resume(&mut self) -> Result<()> {
        signal(self.process.id(), "CONT")?;
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            print!("{line}");
            line.clear();
        }
        if !self.process.wait()?.success() {
            return Err("the paused process failed".into());
        }
        Ok(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(pid: u32, name: &str) -> Result<()> {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()?;
    if !status.success() {
        return Err(format!("cannot send {name}").into());
    }
    Ok(())
}
