//! Lost holds that their threads have not unlocked yet.

use super::*;
use crate::local::tests::hold as hold_of;

fn of(number: u64) -> Arc<Hold> {
    hold_of(&Arc::default(), thread(number))
}

#[test]
fn a_lost_hold_is_kept_until_its_thread_unlocks_it() {
    let mut entry = Entry::default();
    let hold = of(1);
    entry.add_lost(Arc::clone(&hold), &mut List::new());
    assert!(entry.is_free() && !entry.is_unused());
    assert!(Arc::ptr_eq(
        entry.hold_of((thread(1), false)).unwrap(),
        &hold
    ));
    for other in [(thread(2), false), (thread(1), true)] {
        assert!(entry.hold_of(other).is_none());
    }
    assert!(Arc::ptr_eq(&entry.remove(&hold).unwrap(), &hold));
    assert!(entry.remove(&hold).is_none());
    assert!(entry.is_unused());
}

#[test]
fn the_lost_holds_of_ended_threads_are_removed() {
    const RUNNING: usize = 100;
    let (mut entry, mut removed) = (Entry::default(), List::new());
    for number in 0..RUNNING as u64 {
        entry.add_lost(of(number), &mut removed);
    }
    for number in 0..1000 {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            sender.send(of(RUNNING as u64 + number)).unwrap();
            ends.recv().unwrap_err();
        });
        entry.add_lost(receiver.recv().unwrap(), &mut removed);
        drop(end);
        running.join().unwrap();
        assert!(entry.lost.len() <= RUNNING + 1);
    }
    assert_eq!(entry.lost.len() + removed.len(), RUNNING + 1000);
    for number in 0..RUNNING as u64 {
        assert!(entry.hold_of((thread(number), false)).is_some());
    }
}
