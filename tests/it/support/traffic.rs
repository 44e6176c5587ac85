//! The commands that clients send to a server.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use super::server::Server;
use super::timing::SOON;
use super::{connect, unique};

/// Records every command that clients send. Calls inside scripts are left out.
pub struct Monitor {
    url: String,
    lines: BufReader<TcpStream>,
}

impl Monitor {
    pub fn of(server: &Server) -> Self {
        Self::at(&server.url())
    }

    /// Of the server at this URL, which has no password.
    pub fn at(url: &str) -> Self {
        let address = url.trim_start_matches("redis://");
        let mut stream = TcpStream::connect(address).expect("the server replies");
        stream
            .set_read_timeout(Some(SOON.get()))
            .expect("a timeout");
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let mut lines = BufReader::new(stream);
        let mut ok = String::new();
        lines.read_line(&mut ok).expect("the server replies");
        assert_eq!(ok, "+OK\r\n");
        Self {
            url: url.to_owned(),
            lines,
        }
    }

    /// The names of the commands since the last call, in order, in capitals.
    pub fn commands(&mut self) -> Vec<String> {
        let lines = self.lines();
        let names = lines.iter().filter_map(|line| line.split('"').nth(1));
        names.map(str::to_uppercase).collect()
    }

    /// As [`commands`](Self::commands), without what a subscriber sends every five seconds if it
    /// receives nothing.
    pub fn commands_but_pings(&mut self) -> Vec<String> {
        let mut commands = self.commands();
        commands.retain(|name| name != "PING");
        commands
    }

    /// The lines since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        // Redis executes one command after the other, so everything before the mark was sent before
        // it.
        let mark = unique("mark");
        let mut echo = redis::cmd("ECHO");
        let echoed = echo.arg(&mark).exec(&mut connect(&self.url));
        echoed.expect("the server replies");
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("a line");
            if line.contains(&mark) {
                // The mark's own connection sends this.
                lines.retain(|line: &String| !line.contains("\"CLIENT\" \"SETINFO\""));
                return lines;
            }
            if !line.contains(" lua] ") {
                lines.push(line);
            }
        }
    }
}

/// How often each command was called since the start or [`reset`], including calls inside scripts.
pub fn calls(server: &Server) -> HashMap<String, u64> {
    let info: String = server.ask(redis::cmd("INFO").arg("commandstats"));
    let stats = info
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"));
    stats
        .filter_map(|line| {
            let (name, rest) = line.split_once(":calls=")?;
            let (calls, _) = rest.split_once(',')?;
            Some((name.to_owned(), calls.parse().ok()?))
        })
        .collect()
}

pub fn reset(server: &Server) {
    server.ask::<()>(redis::cmd("CONFIG").arg("RESETSTAT"));
}

/// The number of commands that clients sent since [`reset`]: scripts, and the commands of waiting.
/// Calls inside scripts are left out, except the message that each of `releases` published.
pub fn sent(server: &Server, releases: u64) -> u64 {
    let calls = calls(server);
    let sent = [
        "evalsha",
        "eval",
        "subscribe",
        "unsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "ping",
        "publish",
        "spublish",
    ];
    let sent: u64 = sent.iter().filter_map(|name| calls.get(*name)).sum();
    sent - releases
}

/// The number of scripts that clients sent since [`reset`].
pub fn scripts(server: &Server) -> u64 {
    let calls = calls(server);
    let sent = ["evalsha", "eval"].iter();
    sent.filter_map(|name| calls.get(*name)).sum()
}
