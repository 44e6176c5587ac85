//! A minimal HTTP client.

use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::support::Result;

const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Response {
    pub status: u16,
    pub text: String,
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.text)
    }
}

pub fn get(address: SocketAddr, path: &str) -> Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, text) = response
        .split_once("\r\n\r\n")
        .ok_or("the response has no body")?;
    let status = head.split(' ').nth(1).ok_or("the response has no status")?;
    Ok(Response {
        status: status.parse()?,
        text: text.trim().to_owned(),
    })
}
