//! The stock, a number in Redis, and the unprotected way to sell from it.

use redis::Connection;
use uuid::Uuid;

use crate::support::{self, Result};

/// Deletes the stock even if this program is killed.
const EXPIRY_SECONDS: u32 = 600;

/// The keys of one sale, with a unique prefix.
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

/// The stock of one sale. Dropping this value deletes it from Redis.
pub struct Stock {
    redis: Connection,
    pub keys: Keys,
}

impl Stock {
    pub fn create(url: &str, articles: u32) -> Result<Self> {
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

/// One thread's access to the stock, with a connection of its own.
pub struct Seller {
    pub redis: Connection,
    stock: String,
}

impl Seller {
    pub fn open(url: &str, keys: &Keys) -> Result<Self> {
        Ok(Self {
            redis: support::connect(url)?,
            stock: keys.stock(),
        })
    }

    /// Sells one article. Correct only if no other thread or process sells at the same time. False
    /// if the stock is empty.
    pub fn sell_one(&mut self) -> Result<bool> {
        let left: i64 = redis::cmd("GET").arg(&self.stock).query(&mut self.redis)?;
        if left <= 0 {
            return Ok(false);
        }
        redis::cmd("SET")
            .arg(&self.stock)
            .arg(left - 1)
            .arg("EX")
            .arg(EXPIRY_SECONDS)
            .exec(&mut self.redis)?;
        Ok(true)
    }
}
