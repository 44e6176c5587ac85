//! Counts the commands that clients send to servers.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    thread::{self, JoinHandle},
};

/// The argument of the command that ends a count.
const END: &str = "end-of-the-count";

/// How many commands the clients send to these servers while `work` runs. MONITOR reports each
/// command and its client; those that a script executes have no client. It slows a server a little,
/// so work whose time is measured runs without it.
pub fn commands(servers: &[SocketAddr], work: impl FnOnce()) -> u64 {
    let monitors: Vec<_> = servers.iter().map(monitor).collect();
    work();
    for server in servers {
        let end = format!("ECHO {END}\r\n");
        let mut stream = TcpStream::connect(server).expect("the server is up");
        stream.write_all(end.as_bytes()).expect("it reads");
        let mut reply = String::new();
        let replied = BufReader::new(stream).read_line(&mut reply);
        replied.expect("it replies");
    }
    let counts = monitors
        .into_iter()
        .map(|one| one.join().expect("no panic"));
    counts.sum()
}

/// Counts the commands that a server receives from now on, until the one that ends the count.
fn monitor(server: &SocketAddr) -> JoinHandle<u64> {
    let mut stream = TcpStream::connect(server).expect("the server is up");
    stream.write_all(b"MONITOR\r\n").expect("it reads");
    let mut lines = BufReader::new(stream);
    let mut confirmed = String::new();
    lines.read_line(&mut confirmed).expect("it replies");
    assert_eq!(confirmed, "+OK\r\n");
    thread::spawn(move || count(lines))
}

/// A line is `+1700000000.123456 [0 127.0.0.1:40000] "EVALSHA" ..`, or `[0 lua]` in a script.
fn count(lines: impl BufRead) -> u64 {
    let lines = lines
        .split(b'\n')
        .map(|line| line.expect("the server is up"));
    let before_end = lines.take_while(|line| !contains(line, END.as_bytes()));
    let by_clients =
        before_end.filter(|line| line.split(|&byte| byte == b' ').nth(2) != Some(b"lua]"));
    by_clients.count() as u64
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    line.windows(text.len()).any(|window| window == text)
}
