//! `rslock` as in its README: a call of `lock` is repeated until it succeeds. The number of
//! attempts in a call (3) and the pauses between them (up to 200 ms, at random) are its defaults.

use std::time::Duration;

use rslock::{Lock as Held, LockManager};

use crate::Result;
use crate::tasks;

/// The lease of the example of a cluster. The other examples have 1 s.
const LEASE: Duration = Duration::from_secs(10);
const LONG_LEASE: Duration = Duration::from_secs(30);

pub struct Peer(LockManager);

pub struct Lock {
    manager: LockManager,
    name: String,
    lease: Duration,
    held: Option<Held>,
}

impl Peer {
    pub async fn new(url: &str) -> Result<Self> {
        Ok(Self(LockManager::new(vec![url])))
    }

    fn with_lease(&self, name: &str, lease: Duration) -> Lock {
        Lock {
            manager: self.0.clone(),
            name: name.to_owned(),
            lease,
            held: None,
        }
    }
}

impl tasks::Peer for Peer {
    type Lock = Lock;

    const RENEW_AFTER: Option<Duration> = Some(Duration::from_secs(10));

    fn lock(&self, name: &str) -> Lock {
        self.with_lease(name, LEASE)
    }

    fn long_lock(&self, name: &str) -> Lock {
        self.with_lease(name, LONG_LEASE)
    }
}

impl tasks::Lock for Lock {
    async fn lock(&mut self) -> Result<()> {
        let held = self.manager.lock(self.name.as_str(), self.lease).await?;
        self.held = Some(held);
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        let held = self.held.take().ok_or("not held")?;
        self.manager.unlock(&held).await;
        Ok(())
    }

    async fn renew(&mut self) {
        if let Some(held) = &self.held
            && let Ok(extended) = self.manager.extend(held, self.lease).await
        {
            self.held = Some(extended);
        }
    }
}
