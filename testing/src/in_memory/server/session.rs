//! What the server knows of one connection.

use crate::frame::{self, ProtocolError};

/// The words of a command.
pub(super) type Command = Vec<Vec<u8>>;

#[derive(Debug, Default)]
pub(super) struct Session {
    /// The address of the client.
    pub(super) peer: String,
    /// What has arrived after the last complete command.
    pub(super) received: Vec<u8>,
    /// The commands since `MULTI`.
    pub(super) transaction: Option<Vec<Command>>,
    /// By `CLIENT SETNAME`.
    pub(super) name: Vec<u8>,
    pub(super) is_subscribed: bool,
}

impl Session {
    /// The next command that has arrived; an error if the peer does not speak the protocol.
    pub(super) fn next_command(&mut self) -> Result<Option<Command>, ProtocolError> {
        let framed = frame::request(&self.received)?;
        Ok(framed.map(|(length, command)| {
            self.received.drain(..length);
            command
        }))
    }
}
