//! The proxy itself: each fault, seen from both sides. Tests with faults prove nothing if the proxy
//! does not cause them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::support::prelude::*;
use crate::support::proxy::{Proxy, Request};

/// A connection for raw bytes.
struct Client(TcpStream);

impl Client {
    fn of(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
        let soon = Some(SOON.get());
        stream.set_read_timeout(soon).expect("a timeout");
        Self(stream)
    }

    fn send(&mut self, words: &[&str]) {
        self.0.write_all(&packed(words)).expect("the proxy reads");
    }

    #[track_caller]
    fn receive(&mut self, reply: &str) {
        let mut bytes = vec![0; reply.len()];
        self.0.read_exact(&mut bytes).expect("a reply");
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
    }

    #[track_caller]
    fn ask(&mut self, words: &[&str], reply: &str) {
        self.send(words);
        self.receive(reply);
    }

    #[track_caller]
    fn receive_nothing(&self) {
        let while_ = Some(A_WHILE.get());
        self.0.set_read_timeout(while_).expect("a timeout");
        let error = (&self.0).read(&mut [0]).expect_err("nothing to come");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.0
            .set_read_timeout(Some(SOON.get()))
            .expect("a timeout");
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
}

fn packed(words: &[&str]) -> Vec<u8> {
    let mut cmd = redis::Cmd::new();
    for word in words {
        cmd.arg(word);
    }
    cmd.get_packed_command()
}

fn server_and_proxy() -> (Server, Proxy) {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    (server, proxy)
}

/// Each INCR gets this fault; other requests get none.
fn on_incr(proxy: &Proxy, fault: Fault) {
    proxy.on_request(move |request| {
        if request.command() == "INCR" {
            fault.clone()
        } else {
            Fault::Pass
        }
    });
}

fn value(server: &Server) -> Option<u32> {
    server.ask(redis::cmd("GET").arg("n"))
}

#[test]
fn each_of_many_requests_sent_together_is_seen_and_gets_its_own_fault() {
    let (server, proxy) = server_and_proxy();
    let (seen, requests) = unbounded();
    proxy.on_request(move |request| {
        seen.send(request.clone()).expect("the test listens");
        let swallow = request.words.get(1).is_some_and(|word| word == b"2");
        if swallow {
            Fault::SwallowReply
        } else {
            Fault::Pass
        }
    });
    let mut client = Client::of(&proxy);
    let together: Vec<u8> = ["1", "2", "3"]
        .iter()
        .flat_map(|word| packed(&["echo", word]))
        .collect();
    // The bytes arrive in pieces of this size.
    for piece in together.chunks(7) {
        client.0.write_all(piece).expect("the proxy reads");
        thread::yield_now();
    }
    client.receive("$1\r\n1\r\n");
    // The client would take the reply to the third for that to the second.
    client.receive_nothing();
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|r| r.command() == "ECHO" && r.connection == 1)
    );
    drop(server);
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
        let (server, proxy) = server_and_proxy();
        on_incr(&proxy, fault.clone());
        let mut client = Client::of(&proxy);
        client.ask(&["PING"], "+PONG\r\n");
        client.send(&["INCR", "n"]);
        match seen {
            Seen::Nothing => {
                client.send(&["SET", "other", "1"]);
                eventually("the other to be done", || {
                    server.ask(redis::cmd("EXISTS").arg("other"))
                });
                client.receive_nothing();
            }
            Seen::Reset => client.sees_reset(),
            Seen::Fin => client.sees_fin(),
        }
        assert_eq!(value(&server), is_executed.then_some(1), "{fault:?}");
        if !matches!(seen, Seen::Nothing) {
            // The server also sees the end: only the test's own connection is left.
            eventually("the server's end to be closed", || {
                let list: String = server.ask(redis::cmd("CLIENT").arg("LIST"));
                list.lines().count() == 1
            });
        }
    }
}

#[test]
fn a_request_at_the_gate_is_executed_when_it_opens_even_if_the_client_is_gone() {
    for leave in ["stay", "close"] {
        let (server, proxy) = server_and_proxy();
        let gate = Gate::new();
        on_incr(&proxy, Fault::HoldBack(gate.clone()));
        let mut client = Client::of(&proxy);
        client.ask(&["PING"], "+PONG\r\n");
        client.send(&["INCR", "n"]);
        client.send(&["SET", "behind", "1"]);
        eventually("it to be held", || proxy.requests() == 3);
        assert_eq!((gate.held(), gate.passed()), (1, 0), "{leave}");
        if leave == "stay" {
            client.receive_nothing();
            gate.open();
            client.receive(":1\r\n+OK\r\n");
        } else {
            drop(client);
        }
        // Another connection is not delayed.
        let mut other = Client::of(&proxy);
        let behind = if leave == "stay" { ":1\r\n" } else { ":0\r\n" };
        other.ask(&["EXISTS", "behind"], behind);
        gate.open();
        eventually("it to pass", || gate.passed() == 1);
        assert_eq!(gate.held(), 0);
        assert_eq!(value(&server), Some(1), "{leave}");
        eventually("what came behind it", || {
            server.ask::<bool>(redis::cmd("EXISTS").arg("behind"))
        });
    }
}

/// Publishes to one subscriber.
fn publish(server: &Server, channel: &str, payload: &str) {
    let publish = redis::cmd("PUBLISH").arg(channel).arg(payload).clone();
    assert_eq!(server.ask::<u32>(&publish), 1);
}

#[test]
fn messages_are_dropped_by_channel_and_payload_without_confusing_replies() {
    let (server, proxy) = server_and_proxy();
    proxy.on_message(|channel, payload| channel == b"a" && payload != b"2");
    proxy.on_request(|request| match request.command().as_str() {
        "PING" if request.words.len() > 1 => Fault::SwallowReply,
        _ => Fault::Pass,
    });
    let mut client = Client::of(&proxy);
    client.ask(
        &["SUBSCRIBE", "a", "b"],
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
    );
    for (channel, payload) in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3")] {
        publish(&server, channel, payload);
    }
    client.send(&["PING"]);
    client.send(&["PING", "swallowed"]);
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n");
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n3\r\n");
    client.receive("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    publish(&server, "a", "4");
    client.receive("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n4\r\n");
}
