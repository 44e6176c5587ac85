//! Leader election.

use leasehold::{Error, FencedGuard, FencedLock, Interrupt, Lease, Result};

/// Calls `lead` each time this process is elected, until `stop` is raised. It resigns when `lead`
/// returns.
pub fn stand(
    lock: &FencedLock,
    stop: &Interrupt,
    lead: impl Fn(&FencedGuard) -> Result<()>,
) -> Result<()> {
    while !stop.is_interrupted() {
        let term = match lock.acquire_interruptibly(Lease::RENEWED, stop) {
            Err(Error::Interrupted { .. }) => break,
            term => term?,
        };
        let led = lead(&term);
        match led.and(term.unlock()) {
            // Deposed: another process may lead by now. Stand again.
            Err(Error::Lost { .. }) => {}
            // The lock is released in the background.
            Err(Error::NotReleased { .. }) => {}
            led => led?,
        }
    }
    Ok(())
}

#[test]
fn one_leads_until_it_resigns_or_is_deposed() -> Result<()> {
    use crossbeam_channel::{select, unbounded};
    use leasehold::testing::InMemoryRedis;
    use std::time::Duration;

    let redis = InMemoryRedis::start()?;
    let stop = Interrupt::new();
    let ((elected, elections), (resign, resigned)) = (unbounded(), unbounded());
    let processes = [0, 1].map(|process| {
        let lock = redis.client().unwrap().fenced_lock("leader");
        let (elected, resigned, stop) = (elected.clone(), resigned.clone(), stop.clone());
        let lead = move |term: &FencedGuard| {
            elected.send((process, term.fencing_token())).unwrap();
            select! {
                recv(resigned) -> _ => Ok(()),
                recv(term.lost()) -> _ => term.check(),
            }
        };
        std::thread::spawn(move || stand(&lock, &stop, lead))
    });
    let mut terms = Vec::new();
    let mut await_leader = |is_wanted: &dyn Fn(i32) -> bool| {
        // One that resigns may be elected again, if the other one does not listen yet.
        for _ in 0..100 {
            let term = elections.recv_timeout(Duration::from_secs(10)).unwrap();
            terms.push(term);
            if is_wanted(term.0) {
                return term.0;
            }
            resign.send(()).unwrap();
        }
        panic!("the wanted process is not elected");
    };
    let first = await_leader(&|_| true);
    resign.send(()).unwrap();
    let second = await_leader(&|process| process != first);
    assert!(redis.lose("leader"));
    await_leader(&|process| process == second); // it has stood again
    stop.interrupt();
    resign.send(()).unwrap();
    for process in processes {
        process.join().expect("no panic")?;
    }
    assert!(terms.is_sorted_by(|(_, earlier), (_, later)| earlier < later));
    Ok(())
}
