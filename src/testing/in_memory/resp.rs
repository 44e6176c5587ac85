//! The protocol of Redis (RESP2), as a server speaks it.

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

/// The arguments of the first command in `bytes`, and its length. `None` if it is not complete; an
/// error if it is no command.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Vec<Vec<u8>>, usize)>, &'static str> {
    let Some((count, mut at)) = header(bytes, 0, b'*')? else {
        return Ok(None);
    };
    let mut arguments = Vec::new();
    for _ in 0..count {
        let Some((length, start)) = header(bytes, at, b'$')? else {
            return Ok(None);
        };
        let Some(argument) = bytes.get(start..start + length) else {
            return Ok(None);
        };
        let end = start + length + 2;
        if bytes.len() < end {
            return Ok(None);
        }
        arguments.push(argument.to_vec());
        at = end;
    }
    Ok(Some((arguments, at)))
}

/// The number in the line at `at`, and where the next line begins.
fn header(bytes: &[u8], at: usize, mark: u8) -> Result<Option<(usize, usize)>, &'static str> {
    let rest = &bytes[at..];
    match rest.first() {
        None => return Ok(None),
        Some(&first) if first != mark => return Err("ERR Protocol error: not an array of texts"),
        Some(_) => {}
    }
    let Some(length) = rest.windows(2).position(|two| two == b"\r\n") else {
        return Ok(None);
    };
    let number = std::str::from_utf8(&rest[1..length]).ok();
    let number: Option<usize> = number.and_then(|digits| digits.parse().ok());
    match number {
        Some(number) if number <= 64 << 20 => Ok(Some((number, at + length + 2))),
        _ => Err("ERR Protocol error: invalid length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_decoded_once_all_of_it_has_arrived() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n";
        for end in 0..20 {
            assert_eq!(decode(&bytes[..end]), Ok(None), "{end}");
        }
        let arguments = vec![b"GET".to_vec(), b"k".to_vec()];
        assert_eq!(decode(bytes), Ok(Some((arguments, 20))));
        assert!(decode(b"PING\r\n").is_err());
        assert!(decode(b"*1\r\n$-1\r\n").is_err());
    }

    #[test]
    fn a_reply_is_encoded_as_redis_does() {
        let reply = Reply::List(vec![
            Reply::ok(),
            Reply::Int(-2),
            Reply::Nil,
            Reply::text("a\r\nb"),
            Reply::Error("ERR two\nlines".into()),
        ]);
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        let expected = "*5\r\n+OK\r\n:-2\r\n$-1\r\n$4\r\na\r\nb\r\n-ERR twolines\r\n";
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }
}
