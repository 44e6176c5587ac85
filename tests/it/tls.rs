//! TLS: which servers and clients are accepted, and that every handshake ends in time.

mod settings;
pub mod system;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use leasehold::Hint;

use crate::support::certificates::{Authority, TRUSTED};
use crate::support::prelude::*;

/// The command timeout of every call here that fails. Long enough for a handshake on a busy
/// machine.
const TIMEOUT: u64 = 1000;

fn server() -> Server {
    Server::options().tls(&TRUSTED.issue("127.0.0.1")).start()
}

/// A client that trusts the tests' authority.
fn trusting(address: &str) -> LockClientBuilder {
    builder(&format!("rediss://{address}"))
        .ca_certificates(TRUSTED.pem.as_str())
        .connect_timeout(millis(TIMEOUT))
        .command_timeout(millis(TIMEOUT))
}

#[track_caller]
fn works(builder: LockClientBuilder) {
    let client = builder.command_timeout(millis(2000)).build().unwrap();
    let lock = client.reentrant_lock(&unique("tls"));
    lock.lock().unwrap();
    assert!(lock.is_locked().unwrap());
    lock.unlock().unwrap();
}

/// The error of a call that cannot connect now, but may later. The call retries until its deadline.
#[track_caller]
fn connection_error(builder: LockClientBuilder) -> String {
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock(&unique("tls"));
    let bound = millis(TIMEOUT) + SLIP.get() * 2;
    let error = within(bound, "the failure", || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap_err()
    });
    let Error::Unavailable { cause, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(error.to_string().contains(&cause.to_string()), "{error}");
    cause.to_string()
}

/// The error of a call whose own certificate, or whose server's, is invalid. The call has ten
/// command timeouts and uses less than two, because a retry would fail, too.
#[track_caller]
fn certificate_error(builder: LockClientBuilder) -> String {
    certificate_hint(builder).0
}

/// The text of the certificate error, and the hint that says what to change.
#[track_caller]
fn certificate_hint(builder: LockClientBuilder) -> (String, Hint) {
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock(&unique("tls"));
    let bound = millis(TIMEOUT) * 2;
    let error = within(bound, "the refusal", || lock.lock().unwrap_err());
    let Error::Redis {
        cause, node, hint, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    let text = error.to_string();
    assert!(
        text.contains(&cause.to_string()) && text.contains(node),
        "{text}"
    );
    let hint = hint.as_deref().expect("a hint");
    (cause.to_string(), hint.clone())
}

#[test]
fn a_certificate_may_be_for_a_name_or_an_address() {
    for host in ["127.0.0.1", "localhost"] {
        let server = Server::options().tls(&TRUSTED.issue(host)).start();
        works(trusting(&address_by_host(host, &server)));
    }
}

/// The server by another of its names.
fn address_by_host(host: &str, server: &Server) -> String {
    let address = server.tls_address();
    let (_, port) = address.rsplit_once(':').expect("host and port");
    format!("{host}:{port}")
}

#[test]
fn an_invalid_certificate_is_refused() {
    let other = Authority::new().pem;
    let expired = TRUSTED.issue_expired("127.0.0.1");
    for (identity, host, trusted, words) in [
        (
            TRUSTED.issue("127.0.0.1"),
            "127.0.0.1",
            &other,
            "UnknownIssuer",
        ),
        (
            TRUSTED.issue("redis.example"),
            "127.0.0.1",
            &TRUSTED.pem,
            "not valid for name",
        ),
        (
            TRUSTED.issue("127.0.0.1"),
            "localhost",
            &TRUSTED.pem,
            "not valid for name",
        ),
        (expired, "127.0.0.1", &TRUSTED.pem, "expired"),
    ] {
        let server = Server::options().tls(&identity).start();
        let client = trusting(&address_by_host(host, &server));
        let (text, hint) = certificate_hint(client.ca_certificates(trusted.as_str()));
        assert!(
            text.contains("certificate") && text.contains(words),
            "{text}"
        );
        let expected = match words {
            "not valid for name" => Hint::UseCertifiedHost,
            _ => Hint::CheckCertificates,
        };
        assert_eq!(hint, expected, "{text}");
    }
}

#[test]
fn a_server_that_requires_a_certificate_gets_it() {
    let server = Server::options()
        .tls_for_known_clients(&TRUSTED.issue("127.0.0.1"))
        .start();
    let client = || trusting(&server.tls_address());
    let ours = TRUSTED.issue("client");
    works(client().client_certificate(ours.chain, ours.key));
    let text = certificate_error(client());
    assert!(text.contains("CertificateRequired"), "{text}");
    let theirs = Authority::new().issue("client");
    let text = certificate_error(client().client_certificate(theirs.chain, theirs.key));
    assert!(text.contains("UnknownCA"), "{text}");
}

#[test]
fn a_plain_port_and_a_tls_port_are_distinguished() {
    let server = server();
    let text = connection_error(trusting(&server.address()));
    assert!(text.contains("is this the TLS port?"), "{text}");
    let plain = builder(&format!("redis://{}", server.tls_address()))
        .connect_timeout(millis(TIMEOUT))
        .command_timeout(millis(TIMEOUT));
    let text = connection_error(plain);
    assert!(text.contains("rediss://"), "{text}");
}

/// A server that accepts the connection and calls `greet` with it. Ends with the test's clients.
fn fake_server(greet: fn(TcpStream)) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || greet(stream));
        }
    });
    address
}

/// A server that does not reply, one whose bytes come slowly, and one that closes the connection.
#[test]
fn a_failed_handshake_ends_in_time() {
    type Greet = fn(TcpStream);
    let greetings: [(Greet, &str); 3] = [
        (
            |mut stream| drop(stream.read_to_end(&mut Vec::new())),
            "no reply to the TLS handshake",
        ),
        (
            |mut stream| {
                // The header of a record of 16,384 bytes.
                let mut next: &[u8] = &[0x16, 0x03, 0x03, 0x40, 0x00, 0x02];
                while stream.write_all(next).is_ok() {
                    next = &[0];
                    thread::sleep(Duration::from_millis(10));
                }
            },
            "no reply to the TLS handshake",
        ),
        (drop, "TLS handshake"),
    ];
    for (greet, words) in greetings {
        let text = connection_error(trusting(&fake_server(greet)));
        assert!(text.contains(words), "{text}");
    }
}
