//! A server that replies what a test writes.

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub struct FakeServer {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl FakeServer {
    /// Starts a server that calls `reply` for each request: its words, and where the reply is
    /// written. After an error, the connection is closed.
    pub fn start(
        reply: impl Fn(&[String], &mut TcpStream) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, reply) = (Arc::clone(&is_over), Arc::new(reply));
        thread::spawn(move || {
            let streams = listener.incoming().map_while(Result::ok);
            for mut stream in streams.take_while(|_| !ends.load(Ordering::SeqCst)) {
                let reply = Arc::clone(&reply);
                thread::spawn(move || -> Result<()> {
                    let mut requests = BufReader::new(stream.try_clone()?);
                    loop {
                        reply(&words(&mut requests)?, &mut stream)?;
                    }
                });
            }
        });
        Self { port, is_over }
    }

    /// A server that replies this to each script, and that subscribes all channels.
    pub fn with_scripts(replies: impl Into<Vec<u8>>) -> Self {
        let replies = replies.into();
        Self::start(move |words, out| match &*words[0] {
            "EVAL" | "EVALSHA" => out.write_all(&replies),
            _ => reply_as_usual(words, out),
        })
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// The reply to a command that is no script.
pub fn reply_as_usual(words: &[String], out: &mut TcpStream) -> Result<()> {
    match &*words[0] {
        "SUBSCRIBE" | "UNSUBSCRIBE" => words[1..].iter().try_for_each(|channel| {
            let (kind, length) = (words[0].to_lowercase(), channel.len());
            let head = format!("*3\r\n${}\r\n{kind}\r\n", kind.len());
            write!(out, "{head}${length}\r\n{channel}\r\n:1\r\n")
        }),
        "PING" if words.len() > 1 => write!(out, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
        _ => out.write_all(b"+OK\r\n"),
    }
}

fn words(requests: &mut impl BufRead) -> Result<Vec<String>> {
    let count = number(requests)?;
    (0..count).map(|_| word(requests)).collect()
}

fn word(requests: &mut impl BufRead) -> Result<String> {
    let mut word = vec![0; number(requests)? + 2];
    requests.read_exact(&mut word)?;
    word.truncate(word.len() - 2);
    Ok(String::from_utf8_lossy(&word).into())
}

/// The number of a line such as `*3` or `$7`.
fn number(requests: &mut impl BufRead) -> Result<usize> {
    let mut line = String::new();
    requests.read_line(&mut line)?;
    let number = line
        .trim_end()
        .get(1..)
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}
