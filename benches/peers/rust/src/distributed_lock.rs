//! `distributed-lock-redis` as in its README, with its default settings.
//!
//! With one server, `acquire` does not wait, whatever its timeout is: it fails at once if the lock
//! is held. So the driver repeats it after a pause.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};

use crate::Result;
use crate::tasks;

const TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

pub struct Peer(std::sync::Arc<RedisLockProvider>);

pub struct Lock {
    provider: std::sync::Arc<RedisLockProvider>,
    name: String,
    held: Option<RedisLockHandle>,
}

impl Peer {
    pub async fn new(url: &str) -> Result<Self> {
        let provider = RedisLockProvider::builder().url(url).build().await?;
        Ok(Self(provider.into()))
    }
}

impl tasks::Peer for Peer {
    type Lock = Lock;

    fn lock(&self, name: &str) -> Lock {
        Lock {
            provider: self.0.clone(),
            name: name.to_owned(),
            held: None,
        }
    }
}

impl tasks::Lock for Lock {
    async fn lock(&mut self) -> Result<()> {
        let lock = LockProvider::create_lock(&*self.provider, &self.name);
        match lock.acquire(Some(TIMEOUT)).await {
            Ok(held) => {
                self.held = Some(held);
                Ok(())
            }
            Err(error) => {
                tokio::time::sleep(PAUSE).await;
                Err(error.into())
            }
        }
    }

    async fn unlock(&mut self) -> Result<()> {
        let held = self.held.take().ok_or("not held")?;
        Ok(held.release().await?)
    }
}
