//! For tests: what a client makes of the replies of a server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use redis::Value;

use leasehold::LockClient;
use leasehold::admin::{self, ServerError};

/// The results of commands to which a server sends these lines.
pub(super) fn replies(lines: &[&str]) -> Vec<Result<Value, ServerError>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            // The first reply ends the log-in.
            for line in ["+PONG"].iter().chain(lines) {
                // One command, which comes in one piece.
                assert!(stream.read(&mut [0; 512]).unwrap() > 0);
                stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
            }
        });
        // A client that names its connections logs in with another command.
        let client = LockClient::builder(&url).name_connections(false).build();
        let client = client.unwrap();
        let mut connection = admin::servers(&client).unwrap()[0].connect().unwrap();
        let ping = redis::cmd("PING");
        lines.iter().map(|_| connection.run(&ping)).collect()
    })
}

/// The error of a reply, from its line without the minus.
pub(super) fn refusal(line: &str) -> ServerError {
    let mut replies = replies(&[&format!("-{line}")]);
    replies.remove(0).unwrap_err()
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
