//! A lock that a user keeps over several requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Error, Lease, OwnedGuard, ReentrantLock, Result, redis};
use parking_lot::Mutex;

/// A user who sends no request for this long loses the lock.
const IDLE: Duration = Duration::from_secs(60);

/// The guards of the users who edit a document, by the id of the user.
#[derive(Default)]
pub struct Edits(Mutex<HashMap<u64, Arc<OwnedGuard>>>);

impl Edits {
    /// Returns false if the document is edited already.
    pub fn begin(&self, user: u64, document: &ReentrantLock) -> Result<bool> {
        let Some(guard) = document.try_acquire_owned(Duration::ZERO, Lease::fixed(IDLE))? else {
            return Ok(false);
        };
        let mut guards = self.0.lock();
        guards.retain(|_, guard| !guard.is_lost());
        guards.insert(user, Arc::new(guard));
        Ok(true)
    }

    /// Returns false if the user does not edit, or was idle for too long.
    pub fn save(&self, user: u64, text: &str) -> Result<bool> {
        let Some(guard) = self.0.lock().get(&user).cloned() else {
            return Ok(false);
        };
        let key = format!("{{{}}}:text", guard.name());
        // It writes the whole text, so the user may save again after any error.
        let saved = guard.query(redis::pipe().set(key, text).ignore());
        match saved.and_then(|()| guard.extend(IDLE)) {
            Err(Error::Lost { .. }) => Ok(false),
            saved => saved.map(|()| true),
        }
    }

    /// Ends the edit. If a save still runs, its end drops the guard, which unlocks.
    pub fn finish(&self, user: u64) -> Result<()> {
        let guard = self.0.lock().remove(&user).and_then(Arc::into_inner);
        guard.map_or(Ok(()), OwnedGuard::unlock)
    }
}

#[test]
fn a_user_keeps_a_document_until_it_is_idle_or_finishes() -> Result<()> {
    let server = crate::support::Server::find_or_start().unwrap();
    let client = leasehold::LockClient::connect(server.url())?;
    let (document, edits) = (client.reentrant_lock("document:7"), Edits::default());
    assert!(edits.begin(1, &document)? && !edits.begin(2, &document)?);
    assert!(edits.save(1, "text")? && !edits.save(2, "other")?);
    client.force_unlock("document:7")?; // as after an idle minute
    assert!(!edits.save(1, "late")? && edits.begin(2, &document)?);
    assert!(edits.save(2, "other")?);
    edits.finish(2)?;
    assert!(!document.is_locked()? && !edits.save(2, "late")?);
    Ok(())
}
