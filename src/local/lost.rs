//! Lost holds that their threads have not unlocked yet.

use std::sync::Arc;

use foldhash::HashMap;

use super::LockId;
use super::grant::Hold;
use crate::base::owner::ThreadId;

/// There is no sweep before the map has this many lost holds.
const FEW: usize = 64;

/// The lost holds of all locks, by thread and lock, and whether they were shared. A thread that
/// acquires or unlocks a lock finds its lost hold here.
///
/// Only the thread of a hold can unlock it, so the holds of threads that have ended are removed. A
/// sweep looks for them each time the number of holds has doubled. So the map has at most [`FEW`]
/// holds, or twice the largest number that running threads had at one time.
#[derive(Debug, Default)]
pub(super) struct LostHolds {
    holds: HashMap<((ThreadId, bool), LockId), Arc<Hold>>,
    /// The number of holds at which the next sweep runs.
    sweep_at: usize,
}

impl LostHolds {
    pub(super) fn get(&self, lock: &LockId, thread: (ThreadId, bool)) -> Option<&Arc<Hold>> {
        if self.holds.is_empty() {
            return None;
        }
        self.holds.get(&(thread, lock.clone()))
    }

    /// Adds a hold. Returns the holds that no thread can unlock, for the caller to drop outside its
    /// mutex.
    #[must_use]
    pub(super) fn insert(&mut self, hold: Arc<Hold>) -> Vec<Arc<Hold>> {
        if hold.thread_has_ended() {
            return vec![hold];
        }
        let key = ((hold.thread(), hold.is_shared()), hold.lock().clone());
        let mut removed = Vec::from_iter(self.holds.insert(key, hold));
        if self.holds.len() > self.sweep_at.max(FEW) {
            let ended = self.holds.extract_if(|_, hold| hold.thread_has_ended());
            removed.extend(ended.map(|(_, hold)| hold));
            self.sweep_at = self.holds.len() * 2;
        }
        removed
    }

    /// Removes a hold that its thread has unlocked.
    pub(super) fn remove(&mut self, hold: &Hold) -> Option<Arc<Hold>> {
        let key = ((hold.thread(), hold.is_shared()), hold.lock().clone());
        let is_same = |kept: &Arc<Hold>| std::ptr::eq(&raw const **kept, hold);
        self.holds.get(&key).is_some_and(is_same).then_some(())?;
        self.holds.remove(&key)
    }

    /// Removes the holds of a client. Returns them for the caller to drop outside its mutex.
    #[must_use]
    pub(super) fn remove_client(&mut self, client: u64) -> Vec<Arc<Hold>> {
        let removed = self.holds.extract_if(|(_, lock), _| lock.client == client);
        removed.map(|(_, hold)| hold).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::tests::hold;

    fn thread(number: u64) -> ThreadId {
        ThreadId::numbered(number)
    }

    #[test]
    fn a_lost_hold_is_kept_until_its_thread_unlocks_it() {
        let mut lost = LostHolds::default();
        let hold = hold(&Arc::default(), thread(1));
        let key = hold.lock().clone();
        assert!(lost.insert(Arc::clone(&hold)).is_empty());
        assert_eq!(
            lost.get(&key, (thread(1), false)).unwrap().key().key(),
            hold.key().key()
        );
        assert!(lost.get(&key, (thread(2), false)).is_none());
        assert!(Arc::ptr_eq(&lost.remove(&hold).unwrap(), &hold));
        assert!(lost.remove(&hold).is_none());
        assert!(lost.is_empty());
    }

    #[test]
    fn holds_of_ended_threads_are_removed_before_there_are_many() {
        const RUNNING: usize = 100;
        let mut lost = LostHolds::default();
        for number in 0..RUNNING as u64 {
            let mine = hold(&Arc::default(), thread(number));
            assert!(lost.insert(mine).is_empty());
        }
        let mut removed = 0;
        for number in 0..1000 {
            let (end, ends) = std::sync::mpsc::channel::<()>();
            let (sender, receiver) = std::sync::mpsc::channel();
            let running = std::thread::spawn(move || {
                let number = RUNNING as u64 + number;
                sender.send(hold(&Arc::default(), thread(number))).unwrap();
                ends.recv().unwrap_err();
            });
            removed += lost.insert(receiver.recv().unwrap()).len();
            drop(end);
            running.join().unwrap();
            assert!(lost.holds.len() <= 2 * (RUNNING + 1));
        }
        assert_eq!(lost.holds.len() + removed, RUNNING + 1000);
        for number in 0..RUNNING as u64 {
            let key = hold(&Arc::default(), thread(number)).lock().clone();
            assert!(lost.get(&key, (thread(number), false)).is_some());
        }
    }
}
