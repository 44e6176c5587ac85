//! A bounded buffer between processes: producers wait while it is full, consumers while it is
//! empty. One consumer is killed on the way.
//!
//! The buffer is a list in Redis. A lock protects it, and two conditions of this lock tell that the
//! buffer is not full any more, or not empty any more.

#[path = "support/mod.rs"]
mod support;

use std::{
    env,
    io::{self, Read},
    process::{self, Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use leasehold::{Condition, LockClient, ReentrantLock};
use redis::Connection;
use uuid::Uuid;

use crate::support::{Result, Server};

/// The lock of the killed consumer is free after this time, and its notification is passed on.
const LEASE: Duration = Duration::from_secs(1);

/// Deletes the buffer even if this program is killed.
const EXPIRY_SECONDS: u32 = 600;

/// Passes items from producers to consumers, all of them processes of their own, through a bounded
/// buffer in Redis. Kills one more consumer on the way. Exit status 1 if an item was lost, was
/// consumed twice or out of order, or if the buffer had more items than its capacity.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Number of producers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    producers: u32,
    /// Number of consumers, without the one that is killed
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    consumers: u32,
    /// Number of items of each producer
    #[arg(long, default_value_t = 500)]
    items: u32,
    /// Largest number of items in the buffer
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
    /// Run in this role, with the buffer of this prefix
    #[arg(long, hide = true, requires = "prefix")]
    role: Option<Role>,
    #[arg(long, hide = true)]
    prefix: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    number: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Produce,
    Consume,
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(match (args.role, &args.prefix) {
        (Some(role), Some(prefix)) => work(role, prefix, &args).map(|()| ExitCode::SUCCESS),
        _ => pass_items(&args),
    })
}

/// The buffer, and what protects it.
struct Buffer {
    redis: Connection,
    items: String,
    consumed: String,
    lock: ReentrantLock,
    not_full: Condition,
    not_empty: Condition,
    capacity: u32,
    total: u32,
}

impl Buffer {
    fn open(url: &str, prefix: &str, args: &Args) -> Result<Self> {
        let client = LockClient::builder(url).watchdog_lease(LEASE).build()?;
        let lock = client.reentrant_lock(&format!("{prefix}:lock"));
        Ok(Self {
            redis: support::connect(url)?,
            items: format!("{prefix}:items"),
            consumed: format!("{prefix}:consumed"),
            not_full: lock.condition("not full"),
            not_empty: lock.condition("not empty"),
            lock,
            capacity: args.capacity,
            total: args.items * args.producers,
        })
    }

    fn put(&mut self, item: &str) -> Result<()> {
        let guard = self.lock.acquire()?;
        while self.stored()? == self.capacity {
            self.not_full.wait()?;
        }
        guard.check()?;
        let length: u32 = run(&mut self.redis, "LPUSH", &[&self.items, item])?;
        if length > self.capacity {
            return Err(format!("the buffer has {length} items").into());
        }
        self.expire()?;
        self.not_empty.notify_one()?;
        Ok(guard.unlock()?)
    }

    /// False if all items are consumed.
    fn take(&mut self) -> Result<bool> {
        let guard = self.lock.acquire()?;
        while self.stored()? == 0 {
            if self.consumed()? == self.total {
                return Ok(false);
            }
            self.not_empty.wait()?;
        }
        guard.check()?;
        // One command, so that a killed process loses no item.
        let keys = [&*self.items, &*self.consumed];
        run::<String>(&mut self.redis, "RPOPLPUSH", &keys)?;
        self.expire()?;
        if self.consumed()? == self.total {
            self.not_empty.notify_all()?;
        }
        self.not_full.notify_one()?;
        guard.unlock()?;
        Ok(true)
    }

    /// The number of items in the buffer.
    fn stored(&mut self) -> Result<u32> {
        run(&mut self.redis, "LLEN", &[&self.items])
    }

    /// The number of consumed items.
    fn consumed(&mut self) -> Result<u32> {
        run(&mut self.redis, "LLEN", &[&self.consumed])
    }

    fn expire(&mut self) -> Result<()> {
        for key in [&self.items, &self.consumed] {
            run::<u32>(
                &mut self.redis,
                "EXPIRE",
                &[key, &EXPIRY_SECONDS.to_string()],
            )?;
        }
        Ok(())
    }
}

fn run<T: redis::FromRedisValue>(
    redis: &mut Connection,
    command: &str,
    arguments: &[&str],
) -> Result<T> {
    Ok(redis::cmd(command).arg(arguments).query(redis)?)
}

/// A producer or a consumer.
fn work(role: Role, prefix: &str, args: &Args) -> Result<()> {
    // Ends when the parent does.
    thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        process::exit(1);
    });
    let mut buffer = Buffer::open(&env::var("REDIS_URL")?, prefix, args)?;
    match role {
        Role::Produce => (0..args.items).try_for_each(|item| {
            let producer = args.number;
            buffer.put(&format!("{producer} {item}"))
        }),
        Role::Consume => {
            while buffer.take()? {}
            Ok(())
        }
    }
}

/// A child process. Killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(url: &str, role: Role, number: u32, prefix: &str, args: &Args) -> Result<Self> {
        let role = match role {
            Role::Produce => "produce",
            Role::Consume => "consume",
        };
        let mut command = Command::new(env::current_exe()?);
        command.env("REDIS_URL", url).stdin(Stdio::piped());
        for (name, value) in [
            ("--role", role),
            ("--prefix", prefix),
            ("--number", &number.to_string()),
            ("--producers", &args.producers.to_string()),
            ("--items", &args.items.to_string()),
            ("--capacity", &args.capacity.to_string()),
        ] {
            command.args([name, value]);
        }
        Ok(Self(support::shield_from_terminal(&mut command).spawn()?))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pass_items(args: &Args) -> Result<ExitCode> {
    let server = Server::find_or_start()?;
    let prefix = format!("leasehold:buffer:{}", Uuid::new_v4());
    let mut buffer = Buffer::open(server.url(), &prefix, args)?;
    let start = |role, number| Worker::start(server.url(), role, number, &prefix, args);
    let started = Instant::now();
    let killed = start(Role::Consume, args.consumers)?;
    let consumers = (0..args.consumers).map(|number| start(Role::Consume, number));
    let producers = (0..args.producers).map(|number| start(Role::Produce, number));
    let workers: Vec<Worker> = consumers.chain(producers).collect::<Result<_>>()?;
    while buffer.consumed()? < buffer.total / 3 {
        thread::sleep(Duration::from_millis(1));
    }
    drop(killed);
    println!("killed one of {} consumers", args.consumers + 1);
    for mut worker in workers {
        // Its input stays open: it ends by itself.
        let input = worker.0.stdin.take();
        let status = worker.0.wait()?;
        drop(input);
        if !status.success() {
            return Err(format!("a worker failed: {status}").into());
        }
    }
    let elapsed = started.elapsed();
    check(&mut buffer, args)?;
    println!(
        "{} items of {} producers, each consumed once and in order, in {:.1} s",
        buffer.total,
        args.producers,
        elapsed.as_secs_f64()
    );
    let keys = [&*buffer.items, &*buffer.consumed];
    run::<u32>(&mut buffer.redis, "DEL", &keys)?;
    Ok(ExitCode::SUCCESS)
}

/// All items were consumed once, those of each producer in their order.
fn check(buffer: &mut Buffer, args: &Args) -> Result<()> {
    let all = [&*buffer.consumed, "0", "-1"];
    let consumed: Vec<String> = run(&mut buffer.redis, "LRANGE", &all)?;
    for producer in 0..args.producers {
        // The newest item is the first one of the list.
        let of_producer = consumed.iter().rev().filter_map(|item| {
            let (number, item) = item.split_once(' ')?;
            (number == producer.to_string()).then(|| item.parse::<u32>().ok())?
        });
        if !of_producer.eq(0..args.items) {
            return Err(format!("items of producer {producer} are missing or out of order").into());
        }
    }
    if consumed.len() != buffer.total as usize || buffer.stored()? != 0 {
        return Err(format!("{} items were consumed", consumed.len()).into());
    }
    Ok(())
}
