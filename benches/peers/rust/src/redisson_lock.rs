//! The crate `redisson` as in the first example of its README: blocking, with its default settings.

use redisson::{RLock, RedissonClient, RedissonConfig};

use crate::{Result, blocking};

pub struct Peer(RedissonClient);

impl Peer {
    pub fn new(url: &str) -> Result<Self> {
        let config = RedissonConfig::single_server(url);
        let client = RedissonClient::new(config).map_err(|error| error.to_string())?;
        Ok(Self(client))
    }
}

impl blocking::Peer for Peer {
    type Lock = RLock;

    fn lock(&self, name: &str) -> RLock {
        self.0.get_lock(name)
    }
}

impl blocking::Lock for RLock {
    fn lock(&mut self) -> Result<()> {
        Self::lock(self).map_err(|error| error.to_string().into())
    }

    fn unlock(&mut self) -> Result<()> {
        // `unlock` returns false whether or not the lock was held.
        Self::unlock(self)
            .map(drop)
            .map_err(|error| error.to_string().into())
    }
}
