//! For tests: what a client makes of the replies of a server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use leasehold::LockClient;
use leasehold::admin::{self, ServerError};

/// The error of a server that replies with this line, without the minus, to everything.
pub(super) fn refusal(line: &'static str) -> ServerError {
    let client = LockClient::connect(&refusing(line)).unwrap();
    let mut connection = match admin::servers(&client).unwrap()[0].connect() {
        Ok(connection) => connection,
        Err(error) => return error,
    };
    connection.run(&redis::cmd("PING")).unwrap_err()
}

/// The URL of a server that replies with this error to everything.
pub(super) fn refusing(line: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 512];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                // Each command begins with an asterisk, and these have no other.
                let commands = bytes[..length].iter().filter(|byte| **byte == b'*');
                let replies = format!("-{line}\r\n").repeat(commands.count());
                let _ = stream.write_all(replies.as_bytes());
            }
        }
    });
    url
}
