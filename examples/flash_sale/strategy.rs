//! The four ways to keep sellers apart, and what each of them does to make one sale.

use std::{sync::Mutex, thread, time::Duration};

use clap::ValueEnum;
use leasehold::{LockClient, ReentrantLock};
use redis::Connection;
use uuid::Uuid;

use crate::{
    stock::{Keys, Till},
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
}

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mutex => "mutex",
            Self::SetNx => "set-nx",
            Self::Leasehold => "leasehold",
        }
    }

    /// Whether every article must be sold, and none of them twice.
    pub fn must_be_exact(self) -> bool {
        matches!(self, Self::SetNx | Self::Leasehold)
    }
}

/// A strategy in one process, shared by the sellers there.
pub enum Queue {
    None,
    Mutex(Mutex<()>),
    SetNx { lock: String },
    Leasehold(ReentrantLock),
}

impl Queue {
    pub fn new(strategy: Strategy, url: &str, keys: &Keys) -> Result<Self> {
        Ok(match strategy {
            Strategy::None => Self::None,
            Strategy::Mutex => Self::Mutex(Mutex::default()),
            Strategy::SetNx => Self::SetNx { lock: keys.lock() },
            Strategy::Leasehold => {
                Self::Leasehold(LockClient::connect(url)?.reentrant_lock(&keys.lock()))
            }
        })
    }

    /// Makes one sale when it is this seller's turn. False: there is nothing left.
    pub fn sell_one(&self, till: &mut Till) -> Result<bool> {
        match self {
            Self::None => till.sell_one(),
            Self::Mutex(mutex) => sell_in_mutex(mutex, till),
            Self::SetNx { lock } => sell_in_set_nx(lock, till),
            Self::Leasehold(lock) => sell_in_leasehold(lock, till),
        }
    }
}

fn sell_in_mutex(mutex: &Mutex<()>, till: &mut Till) -> Result<bool> {
    let _guard = mutex.lock().expect("no seller panics");
    till.sell_one()
}

fn sell_in_leasehold(lock: &ReentrantLock, till: &mut Till) -> Result<bool> {
    let guard = lock.acquire()?;
    let sold = till.sell_one()?;
    guard.unlock()?;
    Ok(sold)
}

/// What is written by hand most often. Whoever waits has to ask again and again, and work that
/// takes longer than the lease is found out only after the harm is done.
fn sell_in_set_nx(lock: &str, till: &mut Till) -> Result<bool> {
    let token = Uuid::new_v4().to_string();
    while !set_nx(&mut till.redis, lock, &token)? {
        thread::sleep(Duration::from_millis(5));
    }
    let sold = till.sell_one()?;
    delete_if_equal(&mut till.redis, lock, &token)?;
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
