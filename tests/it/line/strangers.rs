//! Messages of other programs on the channel on which a client is called. Every program that may
//! publish can send them.

use super::*;

const MESSAGES: usize = 100_000;

/// The channels of clients on which they are called.
fn control_channels(server: &Server) -> Vec<String> {
    let pattern = "redisson_lock__channel:{leasehold:*";
    server.ask(redis::cmd("PUBSUB").arg("CHANNELS").arg(pattern))
}

fn publish(server: &Server, channel: &str, texts: impl Iterator<Item = String>) {
    let mut connection = server.connection();
    let texts: Vec<String> = texts.collect();
    for texts in texts.chunks(1_000) {
        let mut pipe = redis::pipe();
        for text in texts {
            pipe.publish(channel, text).ignore();
        }
        pipe.exec(&mut connection).unwrap();
    }
}

#[test]
fn calls_of_strangers_cost_a_client_few_requests_and_its_end_little_time() {
    let server = Server::start();
    let timeout = millis(500);
    let ours = builder(&server.url()).command_timeout(timeout);
    let ours = ours.build().unwrap();
    let other = client(&server.url());
    let name = unique("known");
    let lock = ours.reentrant_lock(&name);
    let held = hold(&other, &name);
    assert!(!lock.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
    held.unlock().unwrap();

    let channels = control_channels(&server);
    let [channel] = &channels[..] else {
        panic!("{channels:?}")
    };
    traffic::reset(&server);
    let known = format!("called {name}");
    publish(&server, channel, std::iter::repeat_n(known, 1_000));
    for word in ["called", "freed"] {
        let texts = (0..MESSAGES).map(|number| format!("{word} stranger:{number}"));
        publish(&server, channel, texts);
    }
    // Its call comes after all of these.
    held.lock().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pair(&lock));
        eventually("it to wait", || is_waiting(&server, &name, 1));
        held.unlock().unwrap();
        within(SOON.get(), "the lock", || waiting.join().unwrap());
    });
    let calls = traffic::calls(&server);
    let scripts = ["eval", "evalsha"].map(|command| calls.get(command).copied());
    let scripts: u64 = scripts.into_iter().flatten().sum();
    assert!(scripts < 1_000, "{scripts} scripts");
    drop(lock);
    within(timeout * 2 + SLIP.get(), "the end", || drop(ours));
}
