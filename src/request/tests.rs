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
use crate::base::{List, LockKey, Moment};
use crate::config::LockClientBuilder;
use crate::script;
use crate::topology::Topology;
use crate::transport::credentials::CredentialSource;
use crate::transport::link::Outgoing;
use crate::transport::links::Purpose;

const SOON: Duration = Duration::from_secs(10);

/// The outcome of a request that was sent, and that had this reply, if its time is over then.
fn outcome_of_a_late(reply: &'static [u8]) -> Option<Result<Value, Failure>> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reply_by = |reply: &[u8]| {
            let read = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(reply).unwrap();
            read
        };
        reply_by(b"+PONG\r\n");
        let read = reply_by(reply);
        // Until the client closes the connection.
        let rest = std::io::copy(&mut stream, &mut std::io::sink());
        (read, rest.unwrap_or(0))
    });
    let builder = LockClientBuilder::from(&*format!("redis://127.0.0.1:{port}"));
    let config = builder.validate().unwrap();
    let topology = Arc::new(Topology::new(&config, CredentialSource::Fixed(None), None));
    let client = RedisClient::new(&config, Arc::clone(&topology), Arc::default());
    let key = LockKey::new("", "lock");
    let request = Request::new(&client, &key, script::inspect_any(&key));
    let server = topology.known(&key).unwrap();
    let opened = server.link(Purpose::Caller, 1, SOON);
    let pack = |out: &mut Outgoing<'_>| out.call(&request.call, false);
    let sent = opened.unwrap().send(1, Moment::now(), pack);
    let exchange = Exchange::of_one(server, sent);
    exchange.sent.wait(Moment::now().after(SOON), SOON);
    assert!(exchange.sent.pending.is_over());
    let mut states = vec![RequestState::new(&request)];
    let until = Moment::now();
    Attempt::new(&mut states, Purpose::Caller, until, &mut |_| None)
        .run(List::from_buf([exchange]));
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

#[test]
fn a_server_that_does_not_reply_to_a_ping_is_unresponsive() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let timeout = Duration::from_millis(400);
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let builder = LockClientBuilder::from(&*url).command_timeout(timeout);
    let config = builder.validate().unwrap();
    let topology = Arc::new(Topology::new(&config, CredentialSource::Fixed(None), None));
    let client = RedisClient::new(&config, Arc::clone(&topology), Arc::default());
    let server = topology.known(&LockKey::new("", "lock")).unwrap();
    let is_blamed = || server.health.is_unresponsive() || server.health.is_suspect();
    assert!(!is_blamed());
    assert!(client.ping().is_err() && is_blamed());
}
