//! A server that sends without end, or a reply of any size: calls and drops end in time, and no
//! error is longer than a kilobyte.

use std::io::{ErrorKind, Result, Write};

use crate::support::fake_server::{FakeServer, reply_as_usual};
use crate::support::prelude::*;

/// The reply to each script: its beginning, and what follows without end.
const FLOODS: [(&str, &[u8], &[u8]); 5] = [
    ("a line", b"+", b"xxxxxxxxxxxxxxxx"),
    ("an error", b"-ERR ", b"xxxxxxxxxxxxxxxx"),
    ("errors", b"", b"-ERR x\r\n"),
    ("a text", b"$60000000\r\n", b"xxxxxxxxxxxxxxxx"),
    ("arrays", b"*1000000\r\n*1000000\r\n", b":1\r\n:2\r\n:3\r\n"),
];

/// A refusal: the lock is held, and the client is the first in the line.
const HELD: &[u8] = b"*4\r\n:20000\r\n:1\r\n$5\r\nx:y:z\r\n:0\r\n";

const LIMIT: Millis = Millis(100);

fn flood(beginning: &[u8], rest: &[u8], out: &mut impl Write) -> Result<()> {
    out.write_all(beginning)?;
    let rest = rest.repeat(1 << 12);
    loop {
        out.write_all(&rest)?;
    }
}

fn client_of(server: &FakeServer) -> LockClient {
    let builder = builder(&server.url()).connections(1);
    let builder = builder
        .command_timeout(LIMIT.get())
        .connect_timeout(LIMIT.get());
    builder.build().unwrap()
}

/// Runs `work` on another thread, and fails if it does not end in time: then it does not end at all.
#[track_caller]
fn in_time<T: Send + 'static>(
    bound: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, ended) = bounded(1);
    let began = Instant::now();
    thread::spawn(move || sender.send((work(), began.elapsed())));
    let ended = ended.recv_timeout(SOON.get());
    let (result, took) = ended.unwrap_or_else(|_| panic!("{what} does not end"));
    assert!(took <= bound, "{what} took {took:?}, more than {bound:?}");
    result
}

/// Three threads share a connection, so that one reads for all.
fn calls_end(what: &'static str, client: LockClient) {
    let calls: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let client = client.clone();
            thread::spawn(move || {
                let bound = LIMIT.get() + SLIP.get();
                in_time(bound, what, move || {
                    let lock = client.reentrant_lock(name);
                    lock.try_acquire(LIMIT.get(), Lease::RENEWED).map(drop)
                })
            })
        })
        .into();
    for call in calls {
        let text = match call.join().unwrap() {
            Ok(()) => continue,
            Err(error) => error.to_string(),
        };
        assert!(text.len() < 1_000, "{what}: {} bytes: {text}", text.len());
    }
    in_time(LIMIT.get() * 2 + SLIP.get(), what, || drop(client));
}

#[test]
fn calls_and_a_drop_end_in_time_while_a_server_sends_without_end() {
    for (what, beginning, rest) in FLOODS {
        let server = FakeServer::start(move |words, out| match &*words[0] {
            "EVAL" | "EVALSHA" => flood(beginning, rest, out),
            _ => reply_as_usual(words, out),
        });
        calls_end(what, client_of(&server));
    }
}

/// The subscriber does not read the whole message, so it does not fill the memory of the client.
#[test]
fn a_message_that_is_too_large_ends_the_connection_of_the_subscriber() {
    const MOST: usize = 64 << 20;
    let (sender, ended) = unbounded();
    let server = FakeServer::start(move |words, out| match &*words[0] {
        "EVAL" | "EVALSHA" => out.write_all(HELD),
        "SUBSCRIBE" => {
            reply_as_usual(words, out)?;
            out.write_all(b"*3\r\n$7\r\nmessage\r\n$4000000000\r\n")?;
            let part = [b'x'; 1 << 16];
            let is_taken = |_: &usize| out.write_all(&part).is_ok();
            let taken = (0..MOST / part.len()).take_while(is_taken).count();
            let _ = sender.send(taken * part.len());
            Err(ErrorKind::ConnectionReset.into())
        }
        _ => reply_as_usual(words, out),
    });
    // No timeout ends the connection.
    let builder = builder(&server.url()).command_timeout(SOON.get() * 2);
    let client = builder.build().unwrap();
    let (lock, interrupt) = (client.reentrant_lock("lock"), Interrupt::new());
    thread::scope(|scope| {
        let wait = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        let taken = ended.recv_timeout(SOON.get()).expect("it ends");
        interrupt.interrupt();
        assert_error!(wait.join().unwrap(), Interrupted);
        assert!(taken < MOST, "{taken} bytes");
    });
}

/// Opening a connection has its own time limit.
#[test]
fn a_log_in_ends_in_time_while_a_server_sends_without_end() {
    for (what, beginning, rest) in FLOODS {
        let server = FakeServer::start(move |_, out| flood(beginning, rest, out));
        calls_end(what, client_of(&server));
    }
}

/// The error says which limit the reply exceeds, and what to do.
#[test]
fn a_reply_that_is_too_large_has_a_clear_error() {
    for reply in ["$4000000000\r\n", "*4000000000\r\n"] {
        let server = FakeServer::with_scripts(reply);
        let lock = client_of(&server).reentrant_lock("lock");
        let error = lock.try_acquire_now().unwrap_err();
        let text = error.to_string();
        assert_matches!(error, Error::Unavailable { .. });
        assert!(
            text.contains("64 MB") && text.contains("request less"),
            "{text}"
        );
    }
}

/// The largest texts that a server can put into each kind of error.
#[test]
fn no_error_with_a_text_of_the_server_is_longer_than_a_kilobyte() {
    let long = "x".repeat(1 << 20);
    let text = format!("${}\r\n{long}\r\n", long.len());
    for reply in [
        format!("-ERR {long}\r\n"),
        format!("-NOPERM User u has no permissions to run the '{long}' command\r\n"),
        format!("-WRONGTYPE lock: {long}\r\n"),
        format!("-WRONGTYPE kind: {long}\r\n"),
        format!("-MOVED 1 {long}:1\r\n"),
        format!("+{long}\r\n"),
        format!("*2\r\n{text}{text}"),
        text,
    ] {
        let server = FakeServer::with_scripts(&*reply);
        let client = client_of(&server);
        let errors = [
            client.reentrant_lock("lock").try_acquire_now().map(drop),
            client.inspect("lock").map(drop),
            client.leased_semaphore("permits").permits().map(drop),
            client.semaphore("permits").available().map(drop),
        ];
        for error in errors.into_iter().filter_map(leasehold::Result::err) {
            let text = error.to_string();
            assert!(text.len() < 1_000, "{} bytes: {}", text.len(), &text[..200]);
        }
    }
}
