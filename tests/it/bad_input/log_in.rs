//! Servers that repeat the log-in in their own words, and those that are no servers of Redis. No
//! error and no log line has the password.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use leasehold::Credentials;

use super::{SECRET, assert_no_secret};
use crate::support::prelude::*;

/// What a server that does not follow the protocol sends.
#[derive(Clone, Copy)]
struct Manners {
    /// Sent before the server reads anything.
    greeting: &'static str,
    /// The reply to an AUTH, and that to each other command. `None`: an echo of all bytes.
    replies: Option<(&'static str, &'static str)>,
}

/// Starts a server, and returns its address.
fn start(manners: Manners) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap(), manners));
        }
    });
    address
}

/// Serves one connection until it is closed.
fn serve(mut stream: TcpStream, manners: Manners) {
    let mut bytes = [0; 4096];
    let mut reply = manners.greeting.as_bytes().to_vec();
    while stream.write_all(&reply).is_ok()
        && let Ok(length @ 1..) = stream.read(&mut bytes)
    {
        reply = match manners.replies {
            None => bytes[..length].to_vec(),
            Some((to_auth, to_others)) => {
                let text = String::from_utf8_lossy(&bytes[..length]);
                let has_auth = text.contains("AUTH");
                // Each command begins with an asterisk, and these have no other.
                let others = text.matches('*').count() - usize::from(has_auth);
                let to_auth = if has_auth { to_auth } else { "" };
                [to_auth, &to_others.repeat(others)].concat().into_bytes()
            }
        };
    }
}

/// Clients of this server, which log in with the password.
fn clients(address: &str) -> Vec<LockClient> {
    let open = format!("redis://{address}");
    let url = format!("redis://user:{SECRET}@{address}");
    let provider = || Ok(Credentials::user("user", SECRET));
    let builders = [
        LockClient::builder(&url),
        LockClient::builder_sentinel([&url], "mymaster"),
        LockClient::builder_cluster([&url]),
        LockClient::builder(&format!("{open}?user=user&pass={SECRET}")),
        LockClient::builder(&open).credentials_provider(provider),
    ];
    let quick = |builder: LockClientBuilder| {
        // The connect timeout is also that of the provider's first call.
        builder.command_timeout(millis(50)).build().unwrap()
    };
    builders.map(quick).into()
}

#[test]
fn no_server_brings_the_password_into_an_error_or_the_log() {
    logs::keep();
    let echo = |greeting| Manners {
        greeting,
        replies: None,
    };
    let always = |to_auth, to_others| Manners {
        greeting: "",
        replies: Some((to_auth, to_others)),
    };
    let replying = |to_auth| always(to_auth, "+OK\r\n");
    for manners in [
        replying("-ERR unknown command 'AUTH', with args beginning with: 'user' 'hunter2'\r\n"),
        replying("-ERR Unknown command AUTH user hunter2\r\n"),
        replying("-ERR invalid password hunter2\r\n"),
        replying("-WRONGPASS hunter2\r\n"),
        replying("-LOADING hunter2\r\n"),
        replying("-hunter2\r\n"),
        replying("+hunter2\r\n"),
        replying("?hunter2\r\n"),
        echo(""),
        echo("+hello\r\n"),
        always("+OK\r\n", "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"),
        always("+OK\r\n", "*1\r\n*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"),
    ] {
        for client in clients(&start(manners)) {
            let lock = client.reentrant_lock("lock");
            let taken = lock.try_acquire_now().map(drop);
            for result in [taken, client.ping(), lock.is_locked().map(drop)] {
                if let Err(error) = result {
                    assert_no_secret(&error);
                }
            }
        }
    }
    assert_eq!(logs::lines_about(SECRET, |_| true), [""; 0]);
}
