//! The strategies, and how each of them sells one article.

use std::{sync::Mutex, thread, time::Duration};

use clap::ValueEnum;
use leasehold::{LockClient, ReentrantLock};
use redis::Connection;
use uuid::Uuid;

use crate::{
    stock::{Keys, Seller},
    support::Result,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// Nothing
    None,
    /// A mutex inside each process
    Mutex,
    /// SET NX PX with a random value, and a compare-and-delete
    SetNx,
    /// A lock of leasehold
    Leasehold,
    /// All threads in one process, with one mutex and no lock in Redis
    OneProcess,
}

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mutex => "mutex",
            Self::SetNx => "set-nx",
            Self::Leasehold => "leasehold",
            Self::OneProcess => "one-process",
        }
    }

    /// How many processes sell, and with how many threads each.
    pub fn workers(self, processes: u16, threads: u16) -> (u16, u16) {
        match self {
            Self::OneProcess => (1, processes * threads),
            _ => (processes, threads),
        }
    }

    /// True if the strategy must sell every article exactly once.
    pub fn must_be_exact(self) -> bool {
        matches!(self, Self::SetNx | Self::Leasehold | Self::OneProcess)
    }
}

/// The protection of one process's sales, shared by its threads.
pub enum Protection {
    None,
    Mutex(Mutex<()>),
    SetNx { lock: String },
    Leasehold(ReentrantLock),
}

impl Protection {
    pub fn new(strategy: Strategy, url: &str, keys: &Keys) -> Result<Self> {
        Ok(match strategy {
            Strategy::None => Self::None,
            Strategy::Mutex | Strategy::OneProcess => Self::Mutex(Mutex::default()),
            Strategy::SetNx => Self::SetNx { lock: keys.lock() },
            Strategy::Leasehold => {
                Self::Leasehold(LockClient::connect(url)?.reentrant_lock(&keys.lock()))
            }
        })
    }

    /// Sells one article under the protection. False if the stock is empty.
    pub fn sell_one(&self, seller: &mut Seller) -> Result<bool> {
        match self {
            Self::None => seller.sell_one(),
            Self::Mutex(mutex) => sell_in_mutex(mutex, seller),
            Self::SetNx { lock } => sell_in_set_nx(lock, seller),
            Self::Leasehold(lock) => sell_in_leasehold(lock, seller),
        }
    }
}

fn sell_in_mutex(mutex: &Mutex<()>, seller: &mut Seller) -> Result<bool> {
    let _guard = mutex.lock().expect("no seller panics");
    seller.sell_one()
}

fn sell_in_leasehold(lock: &ReentrantLock, seller: &mut Seller) -> Result<bool> {
    let guard = lock.acquire()?;
    let sold = seller.sell_one()?;
    guard.unlock()?;
    Ok(sold)
}

/// How long a waiting thread of `SET NX` sleeps before it tries again: as long as the lock of
/// `redis-py` does by default. Shorter sleeps cost more commands.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A common hand-written lock. A waiting thread must poll, and a sale that takes longer than the
/// lease is detected only afterwards.
fn sell_in_set_nx(lock: &str, seller: &mut Seller) -> Result<bool> {
    let token = Uuid::new_v4().to_string();
    while !set_nx(&mut seller.redis, lock, &token)? {
        thread::sleep(POLL_INTERVAL);
    }
    let sold = seller.sell_one()?;
    delete_if_equal(&mut seller.redis, lock, &token)?;
    Ok(sold)
}

fn set_nx(redis: &mut Connection, lock: &str, token: &str) -> Result<bool> {
    let reply: Option<String> = redis::cmd("SET")
        .arg(lock)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(10_000)
        .query(redis)?;
    Ok(reply.is_some())
}

fn delete_if_equal(redis: &mut Connection, lock: &str, token: &str) -> Result<()> {
    let script = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";
    let deleted: u32 = redis::cmd("EVAL")
        .arg(script)
        .arg(1)
        .arg(lock)
        .arg(token)
        .query(redis)?;
    if deleted == 1 {
        Ok(())
    } else {
        Err("the lease of set-nx ran out during a sale".into())
    }
}
