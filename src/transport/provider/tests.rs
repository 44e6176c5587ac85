//! Log-ins on a server that a test plays.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use redis::ConnectionAddr;

use super::*;
use crate::transport::credentials::Credentials;
use crate::transport::links::Purpose;
use crate::transport::node::{Limits, Login};

const SOON: Duration = Duration::from_secs(10);

/// Replies to the next command of a new connection.
fn accept(listener: &TcpListener, reply: &[u8]) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let read = stream.read(&mut [0; 64]).unwrap();
    assert!(read > 0);
    stream.write_all(reply).unwrap();
    stream
}

/// Redis before 6 ends the log-in of a connection on which it refuses another one.
#[test]
fn an_open_link_does_not_log_in_with_what_a_new_connection_cannot() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let limits = Limits::within(SOON);
    let login = Login::plain(limits);
    let address = ConnectionAddr::Tcp("127.0.0.1".into(), port);
    let server = Server::new(address, &login);
    thread::scope(|scope| {
        let peer = scope.spawn(|| accept(&listener, b"+PONG\r\n"));
        let link = server.link(Purpose::Caller, 0, SOON).unwrap();
        let mut peer = peer.join().unwrap();
        let new = Usable {
            credentials: Credentials::password("new"),
            is_new: true,
            calls: 1,
        };
        let log_in = || log_in(&new, vec![server.clone()], SOON);

        let refusing = scope.spawn(|| accept(&listener, b"-ERR invalid password\r\n"));
        let is_refused = log_in();
        if !is_refused {
            // So that no thread waits for a connection that the log-in has not opened.
            drop(TcpStream::connect(("127.0.0.1", port)));
        }
        assert!(is_refused);
        drop(refusing.join().unwrap());
        peer.set_nonblocking(true).unwrap();
        let error = peer.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "nothing was sent");
        peer.set_nonblocking(false).unwrap();

        // A server with too many clients says nothing of the credentials.
        scope.spawn(|| accept(&listener, b"-ERR max number of clients reached\r\n"));
        scope.spawn(move || {
            let read = peer.read(&mut [0; 64]).unwrap();
            peer.write_all(b"+OK\r\n").unwrap();
            (read, peer)
        });
        assert!(!log_in());
        assert!(link.is_usable());
    });
}
