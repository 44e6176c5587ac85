//! What other programs see in Redis, byte for byte, and how their keys are handled.

use crate::support::prelude::*;

mod layout;
mod numbers;
mod other_kinds;
pub mod permissions;
mod scripts;

/// The role: acquires a lock and lives until it gets a line or is killed.
pub fn hold(arguments: &[&str]) {
    let [url, name] = child::named(arguments);
    let client = client(url);
    let lock = client.reentrant_lock(name);
    assert!(
        lock.try_lock(Duration::from_secs(60), Lease::RENEWED)
            .unwrap()
    );
    child::send_line("held");
    child::read_line();
    child::send_line(match lock.unlock() {
        Ok(()) => "released".to_owned(),
        Err(error) => error.to_string(),
    });
}

/// The messages on the channel while `work` runs.
pub fn published(server: &Server, channel: &str, work: impl FnOnce()) -> Vec<String> {
    let mut connection = server.connection();
    let mut subscriber = connection.as_pubsub();
    subscriber.subscribe(channel).unwrap();
    work();
    server.ask::<()>(redis::cmd("PUBLISH").arg(channel).arg("end"));
    let mut message = || -> String { subscriber.get_message().unwrap().get_payload().unwrap() };
    std::iter::from_fn(|| Some(message()).filter(|message| message != "end")).collect()
}
