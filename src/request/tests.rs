//! Attempts whose replies come late.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis::Value;

use super::attempt::Attempt;
use super::client::RedisClient;
use super::exchange::Exchange;
use super::state::{Failure, Request, RequestState};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::config::LockClientBuilder;
use crate::deployment::Urls;
use crate::script;
use crate::topology::Topology;
use crate::transport::link::Outgoing;
use crate::transport::links::Purpose;

const SOON: Duration = Duration::from_secs(10);

/// The outcome of a request that was sent, and that had this reply, if its time is over then.
fn outcome_of_a_late(reply: &'static [u8]) -> Option<Result<Value, Failure>> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(reply).unwrap();
        // Until the client closes the connection.
        let rest = std::io::copy(&mut stream, &mut std::io::sink());
        (read, rest.unwrap_or(0))
    });
    let builder = LockClientBuilder::from(&*format!("redis://127.0.0.1:{port}"));
    let config = builder.validate().unwrap();
    let topology = Arc::new(Topology::new(&config, None));
    let client = RedisClient::new(&config, Arc::clone(&topology));
    let key = LockKey::new("", "lock");
    let request = Request::new(&client, &key, script::inspect_any(&key));
    let server = topology.known(&key).unwrap();
    let opened = server.links(Purpose::Caller).link(&server.node, 1, || SOON);
    let pack = |out: &mut Outgoing<'_>| out.call(&request.call, false);
    let sent = opened.unwrap().send(1, Moment::now(), pack);
    let mut exchange = Exchange::of_one(server, sent);
    exchange.sent.wait(Moment::now().after(SOON), SOON);
    assert!(exchange.sent.is_over());
    let mut states = vec![RequestState::new(&request)];
    states[0].under_way = Some(exchange);
    let until = Moment::now();
    Attempt::new(&mut states, None, Purpose::Caller, until, &mut |_| None).run();
    states[0].settle();
    let outcome = states[0].outcome.take();
    drop(states);
    drop(client);
    drop(topology);
    let (_, sent_again) = peer.join().unwrap();
    assert_eq!(sent_again, 0, "the time is over");
    outcome.map(|outcome| outcome.map(|(reply, _)| reply))
}

#[test]
fn an_unknown_script_is_no_refusal_of_a_call_that_has_no_time_left() {
    let outcome = outcome_of_a_late(b"-NOSCRIPT No matching script.\r\n");
    assert!(outcome.is_none(), "{outcome:?}");
}

#[test]
fn a_reply_in_time_counts_although_the_time_is_over_when_it_is_read() {
    let outcome = outcome_of_a_late(b":7\r\n");
    assert!(matches!(outcome, Some(Ok(Value::Int(7)))), "{outcome:?}");
}

/// A peer that handles `connections` connections, one after the other, until the client closes
/// them: each is given what the client sent first, and replies with the result. Also the name of
/// the peer.
fn peer(
    connections: usize,
    reply_to: impl Fn(&str, &[u8]) -> String + Send + 'static,
) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let own_name = name.clone();
    let thread = thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            let reply = reply_to(&own_name, &request[..length]);
            stream.write_all(reply.as_bytes()).unwrap();
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    (name, thread)
}

#[test]
fn a_message_without_a_reply_says_nothing_of_the_server() {
    let (name, peer) = peer(1, |_, _| String::new());
    let timeout = Duration::from_millis(400);
    let builder = LockClientBuilder::from(&*format!("redis://{name}")).command_timeout(timeout);
    let config = builder.validate().unwrap();
    let topology = Arc::new(Topology::new(&config, None));
    let client = RedisClient::new(&config, Arc::clone(&topology));
    let server = topology.known(&LockKey::new("", "lock")).unwrap();
    let is_blamed = || server.health.is_unresponsive() || server.health.is_suspect();
    let published = client.publish(&server, ("PUBLISH", "channel", ""), SOON);
    assert!(published.is_err() && !is_blamed(), "{published:?}");
    assert!(client.ping().is_err() && is_blamed());
    drop((client, server, topology));
    peer.join().unwrap();
}

/// A message is about a channel, whose slot is not that of a lock.
#[test]
fn a_redirected_message_does_not_change_the_slots() {
    let (name, peer) = peer(2, |name, request| {
        let is_look_up = request.windows(5).any(|word| word == b"SLOTS");
        let (_, port) = name.split_once(':').unwrap();
        match is_look_up {
            true => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:{port}\r\n*0\r\n"),
            false => "-MOVED 0 127.0.0.1:1\r\n".into(),
        }
    });
    let builder = LockClientBuilder::new(Urls::Cluster(vec![format!("redis://{name}")]));
    let config = builder.validate().unwrap();
    let topology = Arc::new(Topology::new(&config, None));
    let client = RedisClient::new(&config, Arc::clone(&topology));
    let servers = topology.servers(SOON).unwrap();
    let published = client.publish(&servers[0], ("SPUBLISH", "channel", ""), SOON);
    assert_eq!(published.unwrap_err().code(), Some("MOVED"));
    let (left, known) = (
        topology.known(&LockKey::new("", "")),
        topology.last_known_servers(),
    );
    assert!(left.is_some_and(|server| **server.name() == *name));
    assert_eq!(known.len(), 1);
    drop((client, servers, known, topology));
    peer.join().unwrap();
}
