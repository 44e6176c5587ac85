//! The stock: a number in Redis, and the careless way to take one from it.

use std::{thread, time::Duration};

use redis::Connection;
use uuid::Uuid;

use crate::support::{self, Result};

/// What a seller does between looking at the stock and writing it down.
const MOMENT_OF_THINKING: Duration = Duration::from_millis(1);

/// By then the number is gone, even if nobody was left to delete it.
const EXPIRY_SECONDS: u32 = 600;

/// Names in Redis that nobody else uses.
#[derive(Clone, Debug)]
pub struct Keys(String);

impl Keys {
    fn unique() -> Self {
        Self(format!("leasehold:flash-sale:{}", Uuid::new_v4()))
    }

    pub fn with_prefix(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    pub fn prefix(&self) -> &str {
        &self.0
    }

    pub fn lock(&self) -> String {
        format!("{}:lock", self.0)
    }

    fn stock(&self) -> String {
        format!("{}:stock", self.0)
    }
}

/// The stock of one sale. It is taken out of Redis when dropped.
pub struct Stock {
    redis: Connection,
    pub keys: Keys,
}

impl Stock {
    pub fn lay_in(url: &str, articles: u32) -> Result<Self> {
        let mut redis = support::connect(url)?;
        let keys = Keys::unique();
        redis::cmd("SET")
            .arg(keys.stock())
            .arg(articles)
            .arg("EX")
            .arg(EXPIRY_SECONDS)
            .exec(&mut redis)?;
        Ok(Self { redis, keys })
    }

    pub fn left(&mut self) -> Result<i64> {
        Ok(redis::cmd("GET")
            .arg(self.keys.stock())
            .query(&mut self.redis)?)
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = redis::cmd("DEL")
            .arg(self.keys.stock())
            .arg(self.keys.lock())
            .exec(&mut self.redis);
    }
}

/// Where one seller sells, over a connection of its own.
pub struct Till {
    pub redis: Connection,
    stock: String,
}

impl Till {
    pub fn open(url: &str, keys: &Keys) -> Result<Self> {
        Ok(Self {
            redis: support::connect(url)?,
            stock: keys.stock(),
        })
    }

    /// Right only as long as nobody else does the same at the same time. False: there is nothing left.
    pub fn sell_one(&mut self) -> Result<bool> {
        let left: i64 = redis::cmd("GET").arg(&self.stock).query(&mut self.redis)?;
        if left <= 0 {
            return Ok(false);
        }
        thread::sleep(MOMENT_OF_THINKING);
        redis::cmd("SET")
            .arg(&self.stock)
            .arg(left - 1)
            .arg("EX")
            .arg(EXPIRY_SECONDS)
            .exec(&mut self.redis)?;
        Ok(true)
    }
}
