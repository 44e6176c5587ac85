//! The connections and the threads of the proxy.

use super::{Client, server_and_proxy, value};
use crate::support::prelude::*;
use crate::support::server::Port;

#[test]
fn open_connections_are_cut_or_reset_at_once_and_new_ones_refused() {
    let (_server, proxy) = server_and_proxy();
    let mut clients = [(); 3].map(|()| Client::of(&proxy));
    for client in &mut clients {
        client.ask(&["PING"], "+PONG\r\n");
    }
    let [first, second, third] = &mut clients;
    proxy.cut_all();
    first.sees_fin();
    second.sees_fin();
    third.sees_fin();
    let mut client = Client::of(&proxy);
    client.ask(&["PING"], "+PONG\r\n");
    proxy.reset_all();
    client.sees_reset();
    proxy.refuse(true);
    Client::of(&proxy).sees_fin();
    proxy.refuse(false);
    Client::of(&proxy).ask(&["PING"], "+PONG\r\n");
    assert_eq!(proxy.connections(), 6);
}

#[test]
fn retarget_sends_new_connections_to_another_server() {
    let (_server, proxy) = server_and_proxy();
    let another = Server::start();
    another.ask::<()>(redis::cmd("SET").arg("n").arg(7));
    let mut old = Client::of(&proxy);
    old.ask(&["GET", "n"], "$-1\r\n");
    proxy.retarget(another.address());
    Client::of(&proxy).ask(&["GET", "n"], "$1\r\n7\r\n");
    old.ask(&["GET", "n"], "$-1\r\n");
    // No server listens there.
    let closed = Port::reserve();
    proxy.retarget(format!("127.0.0.1:{}", closed.number()));
    Client::of(&proxy).sees_fin();
}

/// Whatever its threads wait for.
#[test]
fn dropping_a_proxy_ends_all_its_threads_at_once() {
    let (server, proxy) = server_and_proxy();
    let gate = Gate::new();
    let held = gate.clone();
    proxy.on_request(move |request| match request.command().as_str() {
        "ECHO" => Fault::Delay(SOON.get() * 6),
        "INCR" => Fault::HoldBack(held.clone()),
        "PING" => Fault::SplitReply {
            every: 1,
            pause: SOON.get() * 6,
        },
        _ => Fault::Pass,
    });
    let mut clients: Vec<Client> = [
        &["ECHO", "1"][..],
        &["INCR", "n"],
        &["PING"],
        &["BLPOP", "none", "0"],
    ]
    .map(|words| {
        let mut client = Client::of(&proxy);
        client.send(words);
        client
    })
    .into();
    eventually("all to be there", || proxy.requests() == 4);
    clients[2].receive("+");
    within(SLIP.get(), "the end of the proxy", || drop(proxy));
    for client in &mut clients {
        client.sees_fin();
    }
    gate.open();
    throughout(A_WHILE.get(), "what was held back", || {
        value(&server).is_none()
    });
}

#[test]
fn a_client_that_reads_nothing_does_not_delay_the_cut_of_all_connections() {
    let (server, proxy) = server_and_proxy();
    server.ask::<()>(redis::cmd("SETRANGE").arg("n").arg(16 << 20).arg("end"));
    let mut idle = Client::of(&proxy);
    let mut other = Client::of(&proxy);
    other.ask(&["PING"], "+PONG\r\n");
    idle.send(&["GET", "n"]);
    // The proxy has begun to write the reply.
    idle.receive("$16777219\r\n");
    within(millis(1000), "the cut", || proxy.cut_all());
    other.sees_fin();
}
