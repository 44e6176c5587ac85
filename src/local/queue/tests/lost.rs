//! Lost holds that their threads have not unlocked yet.

use super::*;
use crate::local::tests::hold as hold_of;

fn of(number: u64) -> Arc<Hold> {
    hold_of(&Arc::default(), thread(number))
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
        assert!(entry.hold_of(thread(number), false).is_some());
    }
}
