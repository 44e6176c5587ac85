//! leasehold with its default settings.

use leasehold::{LockClient, ReentrantLock};

use crate::{Result, blocking};

pub struct Peer(LockClient);

impl Peer {
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self(LockClient::connect(url)?))
    }
}

impl blocking::Peer for Peer {
    type Lock = ReentrantLock;

    fn lock(&self, name: &str) -> ReentrantLock {
        self.0.reentrant_lock(name)
    }
}

impl blocking::Lock for ReentrantLock {
    fn lock(&mut self) -> Result<()> {
        Ok(Self::lock(self)?)
    }

    fn unlock(&mut self) -> Result<()> {
        Ok(Self::unlock(self)?)
    }
}
