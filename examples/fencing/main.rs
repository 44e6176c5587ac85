//! A paused holder writes late to an account. A file cannot check the write, so it undoes another
//! payment. SQLite rejects it by the fencing token in the row, and Redis by a query of the guard.

#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use clap::{Parser, ValueEnum};
use leasehold::{Error, FencedGuard, Lease, LockClient};
use redis::Commands;
use tempfile::TempDir;

use crate::support::{Result, Server};

const LOCK: &str = "account:1";
const BALANCE: &str = "{account:1}:balance";
const LEASE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Two processes pay from one account under a lock. The first one is paused between its last check
/// and its write for longer than its lease. The second one pays meanwhile.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Run as the process that is paused: the URL of the server, and a folder
    #[arg(long, num_args = 2, hide = true)]
    paused: Option<Vec<String>>,
    /// Where its account is
    #[arg(long, hide = true, default_value = "file")]
    kind: Kind,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.paused {
        Some(paused) => pay_late(args.kind, &paused[0], Path::new(&paused[1])),
        None => show(),
    };
    support::exit_code(outcome.map(|()| ExitCode::SUCCESS))
}

fn show() -> Result<()> {
    let server = Server::find_or_start()?;
    let folder = TempDir::new()?;
    for (kind, expected) in [(Kind::File, 50), (Kind::Sqlite, 20), (Kind::Redis, 20)] {
        println!("{kind:?}: an account of 100, two payments of 50 and 30:");
        let account = Account::open(kind, server.url(), folder.path())?;
        account.create()?;
        let mut first = Paused::start(kind, server.url(), folder.path())?;
        first.wait_until_paused()?;
        pay(server.url(), &account, 30)?;
        first.resume()?;
        let balance = account.read()?;
        println!("  final balance: {balance}\n");
        if balance != expected {
            return Err(format!("the balance should be {expected}").into());
        }
    }
    println!("Correct is 20. Only the store can reject a late write.");
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
    let done = account.write(&guard, balance - amount)?;
    println!(
        "  payment of {amount}: read {balance}, writes {} ({})",
        balance - amount,
        result(done)
    );
    guard.unlock()?;
    Ok(())
}

/// Pays 50, but is paused between the check of the lock and the write.
fn pay_late(kind: Kind, url: &str, folder: &Path) -> Result<()> {
    let account = Account::open(kind, url, folder)?;
    let lock = LockClient::connect(url)?.fenced_lock(LOCK);
    let lease = Lease::fixed(LEASE);
    let guard = lock
        .try_acquire(TIMEOUT, lease)?
        .ok_or("the lock is not free")?;
    let balance = account.read()?;
    guard.check()?;
    println!("  payment of 50: read {balance}, holds the lock, is paused");
    signal(process::id(), "STOP")?;
    let done = account.write(&guard, balance - 50)?;
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
    if done { "done" } else { "rejected" }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    File,
    Sqlite,
    Redis,
}

/// A balance.
enum Account {
    /// A store that cannot check who writes.
    File(PathBuf),
    /// One row, with the greatest token that wrote it. Its SQL is also that for PostgreSQL.
    Sqlite(rusqlite::Connection),
    /// A key of the server that has the lock.
    Redis(redis::Client),
}

impl Account {
    fn open(kind: Kind, url: &str, folder: &Path) -> Result<Self> {
        Ok(match kind {
            Kind::File => Self::File(folder.join("file")),
            Kind::Sqlite => {
                let database = rusqlite::Connection::open(folder.join("sqlite"))?;
                database.busy_timeout(TIMEOUT)?;
                Self::Sqlite(database)
            }
            Kind::Redis => Self::Redis(redis::Client::open(url)?),
        })
    }

    fn create(&self) -> Result<()> {
        match self {
            Self::File(file) => fs::write(file, "100")?,
            Self::Sqlite(database) => database.execute_batch(
                "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT, fence BIGINT);
                 INSERT INTO account VALUES (1, 100, 0);",
            )?,
            Self::Redis(client) => client.get_connection()?.set(BALANCE, 100)?,
        }
        Ok(())
    }

    fn read(&self) -> Result<i64> {
        let select = "SELECT balance FROM account WHERE id = 1";
        Ok(match self {
            Self::File(file) => fs::read_to_string(file)?.parse()?,
            Self::Sqlite(database) => database.query_row(select, [], |row| row.get(0))?,
            Self::Redis(client) => client.get_connection()?.get(BALANCE)?,
        })
    }

    /// Writes the balance. False if the store knows of a later holder.
    fn write(&self, guard: &FencedGuard, balance: i64) -> Result<bool> {
        match self {
            Self::File(file) => fs::write(file, balance.to_string())?,
            Self::Sqlite(database) => {
                let token = i64::try_from(guard.fencing_token())?;
                let rows = database.execute(
                    "UPDATE account SET balance = $1, fence = $2 WHERE id = 1 AND fence <= $2",
                    (balance, token),
                )?;
                return Ok(rows == 1);
            }
            Self::Redis(_) => match guard.query(redis::pipe().set(BALANCE, balance).ignore()) {
                Err(Error::Lost { .. }) => return Ok(false),
                result => result?,
            },
        }
        Ok(true)
    }
}

/// The process that is paused. Its standard output is printed.
struct Paused {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Paused {
    fn start(kind: Kind, url: &str, folder: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--paused").arg(url).arg(folder);
        command.arg(format!("--kind={kind:?}").to_lowercase());
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
