//! What has arrived on a connection, and the replies in it.

use std::io;

use redis::{RedisResult, Value};

use crate::transport::resp;

/// The bounds of the buffer of an idle connection, in bytes.
const SMALLEST_BUFFER: usize = 512;
pub(super) const LARGEST_BUFFER: usize = 16 << 10;

/// The bytes that have arrived and are not decoded yet.
#[derive(Debug, Default)]
pub(crate) struct Received {
    buffer: Vec<u8>,
    /// The first of them, and the end of the last one. The rest of the buffer is free.
    start: usize,
    end: usize,
}

impl Received {
    /// The next whole reply.
    pub(crate) fn next(&mut self) -> RedisResult<Option<Value>> {
        if self.start == self.end {
            return Ok(None);
        }
        let Some((reply, length)) = resp::decode(&self.buffer[self.start..self.end])? else {
            return Ok(None);
        };
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // What is rarely needed, such as for the slots of a cluster, is not kept.
            if self.buffer.len() > LARGEST_BUFFER {
                self.buffer = Vec::new();
            }
        }
        Ok(Some(reply))
    }

    /// Adds what `read` puts into the free room, at least a byte.
    pub(crate) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            let length = (self.buffer.len() * 2).max(SMALLEST_BUFFER);
            self.buffer.resize(length, 0);
        }
        match read(&mut self.buffer[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }
}
