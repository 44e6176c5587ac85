//! The proxy: each fault, seen from both sides. Tests with faults prove nothing if the proxy does
//! not cause them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::LockClient;
use leasehold::testing::{Fault, FaultProxy, Gate, InMemoryRedis, ProxiedRequest};

const A_WHILE: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(20);

/// A connection for raw bytes.
struct Client(TcpStream);

impl Client {
    fn of(address: impl AsRef<str>) -> Self {
        let stream = TcpStream::connect(address.as_ref()).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        Self(stream)
    }

    /// Sends words that are separated by spaces.
    fn send(&mut self, words: &str) {
        self.0.write_all(&packed(words)).expect("the proxy reads");
    }

    #[track_caller]
    fn receive(&mut self, reply: &str) {
        let mut bytes = vec![0; reply.len()];
        self.0.read_exact(&mut bytes).expect("a reply");
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
    }

    #[track_caller]
    fn ask(&mut self, words: &str, reply: &str) {
        self.send(words);
        self.receive(reply);
    }

    #[track_caller]
    fn receive_nothing(&self) {
        self.0.set_read_timeout(Some(A_WHILE)).expect("a timeout");
        let error = (&self.0).read(&mut [0]).expect_err("nothing to come");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.0.set_read_timeout(Some(SOON)).expect("a timeout");
    }

    #[track_caller]
    fn sees_fin(&mut self) {
        assert_eq!(self.0.read(&mut [0]).expect("no reset"), 0);
    }

    #[track_caller]
    fn sees_reset(&mut self) {
        let error = self.0.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    /// The number of a reply.
    fn number(&mut self, words: &str) -> u32 {
        self.send(words);
        let mut reply = String::new();
        while !reply.ends_with("\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("a reply");
            reply.push(char::from(byte[0]));
        }
        reply[1..].trim().parse().expect("a number")
    }
}

fn packed(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let words = (words.len(), words.iter().map(word).collect::<String>());
    format!("*{}\r\n{}", words.0, words.1).into_bytes()
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A server, a proxy before it, and a connection without the proxy.
fn start() -> (InMemoryRedis, FaultProxy, Client) {
    let server = InMemoryRedis::start().expect("loopback");
    let proxy = FaultProxy::start(server.address()).expect("loopback");
    let direct = Client::of(server.address());
    (server, proxy, direct)
}

/// Each INCRBY gets this fault; other requests get none.
fn on_incrby(proxy: &FaultProxy, fault: Fault) {
    proxy.on_request(move |request| match &*request.command() {
        "INCRBY" => fault.clone(),
        _ => Fault::Pass,
    });
}

#[test]
fn each_of_many_requests_sent_together_is_seen_and_gets_its_own_fault() {
    let (server, proxy, direct) = start();
    let (seen, requests) = mpsc::channel();
    proxy.on_request(move |request| {
        seen.send(request.clone()).expect("the test listens");
        match request.words.get(1).is_some_and(|word| word == b"2") {
            true => Fault::SwallowReply,
            false => Fault::Pass,
        }
    });
    let mut client = Client::of(proxy.address());
    let together = ["echo 1", "echo 2", "echo 3"].map(packed).concat();
    // The bytes arrive in pieces of this size.
    for piece in together.chunks(7) {
        client.0.write_all(piece).expect("the proxy reads");
        thread::yield_now();
    }
    client.receive("$1\r\n1\r\n");
    // The client would take the reply to the third for that to the second.
    client.receive_nothing();
    let requests: Vec<ProxiedRequest> = requests.try_iter().collect();
    assert_eq!(requests.len(), 3);
    let is_expected = |one: &ProxiedRequest| one.command() == "ECHO" && one.connection == 1;
    assert!(requests.iter().all(is_expected));
    drop((direct, server));
    client.sees_fin();
}

/// What a client sees of a fault, and whether the server executes the request.
#[test]
fn each_fault_affects_the_request_or_its_reply() {
    enum Seen {
        Nothing,
        Reset,
        Fin,
    }
    for (fault, seen, is_executed) in [
        (Fault::SwallowReply, Seen::Nothing, true),
        (Fault::SwallowRequest, Seen::Nothing, false),
        (Fault::ResetBeforeReply, Seen::Reset, true),
        (Fault::HalfRequest, Seen::Fin, false),
    ] {
        let (_server, proxy, mut direct) = start();
        on_incrby(&proxy, fault.clone());
        let mut client = Client::of(proxy.address());
        client.ask("PING", "+PONG\r\n");
        client.send("INCRBY n 1");
        match seen {
            Seen::Nothing => {
                client.send("SET other 1");
                eventually("the other is done", || direct.number("EXISTS other") == 1);
                client.receive_nothing();
            }
            Seen::Reset => client.sees_reset(),
            Seen::Fin => client.sees_fin(),
        }
        let executed = direct.number("EXISTS n") == 1;
        assert_eq!(executed, is_executed, "{fault:?}");
    }
}

#[test]
fn a_request_at_the_gate_is_executed_when_it_opens_even_if_the_client_is_gone() {
    for stays in [true, false] {
        let (_server, proxy, mut direct) = start();
        let gate = Gate::new();
        on_incrby(&proxy, Fault::HoldBack(gate.clone()));
        let mut client = Client::of(proxy.address());
        client.ask("PING", "+PONG\r\n");
        client.send("INCRBY n 1");
        client.send("SET behind 1");
        eventually("it is held", || proxy.requests() == 3);
        assert_eq!((gate.held(), gate.passed()), (1, 0));
        if stays {
            client.receive_nothing();
            gate.open();
            client.receive(":1\r\n+OK\r\n");
        } else {
            drop(client);
        }
        // Another connection is not delayed.
        let mut other = Client::of(proxy.address());
        assert_eq!(other.number("EXISTS behind"), u32::from(stays));
        gate.open();
        eventually("all to be executed", || {
            direct.number("EXISTS n behind") == 2
        });
        assert_eq!(gate.held(), 0);
        assert!(!stays || gate.passed() == 1);
    }
}

#[test]
fn messages_are_dropped_by_channel_and_payload_without_confusing_replies() {
    let (_server, proxy, mut direct) = start();
    proxy.on_message(|channel, payload| channel == b"a" && payload != b"2");
    proxy.on_request(|request| match &*request.command() {
        "PING" if request.words.len() > 1 => Fault::SwallowReply,
        _ => Fault::Pass,
    });
    let mut client = Client::of(proxy.address());
    client.ask(
        "SUBSCRIBE a b",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
    );
    for message in ["a 1", "a 2", "b 1", "a 3"] {
        direct.ask(&format!("PUBLISH {message}"), ":1\r\n");
    }
    client.send("PING");
    client.send("PING swallowed");
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n");
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n3\r\n");
    client.receive("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    direct.ask("PUBLISH a 4", ":1\r\n");
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n4\r\n");
}

/// A rule that looks for a misspelt script would find none, and its fault would never happen.
#[test]
fn a_request_shows_its_script_by_name_and_an_unknown_name_is_refused() {
    let (_redis, proxy, _client) = start();
    proxy.name_script("of the test", "return 1");
    let (sender, requests) = mpsc::channel();
    proxy.on_request(move |request| {
        let _ = sender.send(request.clone());
        Fault::Pass
    });
    let client = LockClient::connect(&proxy.url()).expect("a client");
    client.reentrant_lock("order:pay").lock().expect("a lock");
    let request = requests
        .iter()
        .find(|request: &ProxiedRequest| request.runs("acquire"))
        .expect("an acquire");
    let shown = format!("{request:?}");
    assert!(shown.contains("script: Some(\"acquire\")"), "{shown}");
    assert!(shown.contains("\"order:pay\""), "{shown}");
    assert!(!request.runs("of the test"));

    let refused = thread::spawn(move || request.runs("aquire")).join();
    let message = refused.expect_err("no script has this name");
    let message = message.downcast_ref::<String>().expect("a text");
    for part in ["\"aquire\"", "\"acquire\"", "\"of the test\""] {
        assert!(message.contains(part), "{message}");
    }
}
