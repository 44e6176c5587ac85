//! The replies of the server, in the protocol of Redis (RESP2).

/// A reply to a command, or a message to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(String),
    /// The code and the text.
    Error(String),
    Int(i64),
    Text(Vec<u8>),
    Nil,
    List(Vec<Self>),
}

impl Reply {
    pub(super) fn ok() -> Self {
        Self::Status("OK".into())
    }

    pub(super) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn texts(texts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::List(texts.into_iter().map(Self::Text).collect())
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Appends its bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Status(text) => line(bytes, b'+', text),
            Self::Error(text) => line(bytes, b'-', text),
            Self::Int(number) => line(bytes, b':', &number.to_string()),
            Self::Text(text) => {
                line(bytes, b'$', &text.len().to_string());
                bytes.extend_from_slice(text);
                bytes.extend_from_slice(b"\r\n");
            }
            Self::Nil => line(bytes, b'$', "-1"),
            Self::List(replies) => {
                line(bytes, b'*', &replies.len().to_string());
                replies.iter().for_each(|reply| reply.encode(bytes));
            }
        }
    }
}

fn line(bytes: &mut Vec<u8>, mark: u8, text: &str) {
    bytes.push(mark);
    // The end of a line ends the reply.
    bytes.extend(text.bytes().filter(|byte| !b"\r\n".contains(byte)));
    bytes.extend_from_slice(b"\r\n");
}
