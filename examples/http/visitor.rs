//! A request to the service, as a browser makes it.

use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::support::Result;

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Answer {
    pub status: u16,
    text: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.text)
    }
}

pub fn ask(address: SocketAddr, path: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, text) = answer.split_once("\r\n\r\n").ok_or("half an answer")?;
    let status = head.split(' ').nth(1).ok_or("an answer without a status")?;
    Ok(Answer {
        status: status.parse()?,
        text: text.trim().to_owned(),
    })
}
