//! A server whose replies have numbers that no server has: no call panics.

use crate::support::fake_server::FakeServer;
use crate::support::prelude::*;

fn replies() -> Vec<String> {
    let numbers = [
        i64::MAX,
        i64::MIN,
        1 << 40,
        u32::MAX.into(),
        i32::MIN.into(),
        -1,
        0,
    ];
    let mut replies: Vec<String> = Vec::new();
    for number in numbers {
        replies.push(format!(":{number}\r\n"));
        for other in numbers {
            replies.push(format!("*2\r\n:{number}\r\n:{other}\r\n"));
        }
        for (owner, others) in [("a:1", i64::MAX), ("", u32::MAX.into()), ("a:1", -1)] {
            let owner = format!("${}\r\n{owner}\r\n", owner.len());
            // A refused acquire: the milliseconds, the lock, the owner and the rank.
            replies.push(format!("*4\r\n:{number}\r\n:1\r\n{owner}:{others}\r\n"));
            replies.push(format!("*4\r\n:1\r\n:{number}\r\n{owner}:{others}\r\n"));
            replies.push(format!(
                "*5\r\n:{number}\r\n:1\r\n{owner}:{others}\r\n:1\r\n"
            ));
            // The state of a lock: the milliseconds, the owner, the holds and the readers.
            replies.push(format!(
                "*4\r\n:{number}\r\n{owner}:{others}\r\n:{others}\r\n"
            ));
        }
    }
    replies
}

fn use_all_kinds(client: &LockClient) {
    let wait = Duration::from_millis(3);
    let read_write = client.read_write_lock("lock");
    let locks: [Box<dyn Lock>; 6] = [
        Box::new(client.reentrant_lock("lock")),
        Box::new(client.fenced_lock("lock")),
        Box::new(client.fair_lock("fair")),
        Box::new(read_write.read()),
        Box::new(read_write.write()),
        Box::new(client.multi_lock(["a", "b"])),
    ];
    for lock in locks {
        let guard = lock.try_acquire(wait, Lease::RENEWED);
        if let Ok(Some(guard)) = guard {
            let _ = (guard.fencing_token(), guard.remaining(), guard.confirm());
            let _ = (guard.extend(LEASE.get()), guard.unlock());
        }
        // The second request follows a release.
        let _ = lock.try_acquire(wait, Lease::fixed(LEASE.get())).map(drop);
        let _ = (lock.is_locked(), lock.remaining());
    }
    let leased = client.leased_semaphore("permits");
    let _ = (leased.permits(), leased.available(), leased.set_permits(3));
    let permit = leased.try_acquire(wait, Lease::RENEWED);
    let _ = (leased.add_permits(-1), permit.map(drop));
    let semaphore = client.semaphore("number");
    let _ = (semaphore.try_set_permits(3), semaphore.available());
    let _ = (semaphore.try_acquire(2, wait), semaphore.release(1));
    let _ = (semaphore.add_permits(i32::MIN.into()), semaphore.drain());
    let latch = client.count_down_latch("latch");
    let _ = (latch.try_set_count(3), latch.count(), latch.count_down());
    let _ = latch.wait_for(wait);
    let _ = (client.inspect("lock"), client.force_unlock("lock"));
}

fn no_call_panics(reply: &str) {
    let server = FakeServer::with_scripts(reply);
    let builder = builder(&server.url()).command_timeout(Duration::from_millis(10));
    let client = builder.connect_timeout(LEASE.get()).build().unwrap();
    let calls = thread::spawn(move || use_all_kinds(&client));
    assert!(calls.join().is_ok(), "{reply:?}");
}

#[test]
fn no_number_in_a_reply_makes_a_call_panic() {
    let replies = replies();
    thread::scope(|scope| {
        for some in replies.chunks(20) {
            scope.spawn(|| some.iter().for_each(|reply| no_call_panics(reply)));
        }
    });
}
