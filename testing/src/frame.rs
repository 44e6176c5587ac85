//! The frames of the protocol of Redis: where each one ends.

/// Not the protocol of Redis.
#[derive(Debug)]
pub(super) struct ProtocolError;

type Framed<T> = Result<Option<T>, ProtocolError>;

/// The length and the words of the first request in `bytes`. `None`: it is not complete.
pub(super) fn request(bytes: &[u8]) -> Framed<(usize, Vec<Vec<u8>>)> {
    if bytes.first().is_some_and(|byte| *byte != b'*') {
        // An inline command: one line.
        let Some((line, end)) = line(bytes, 0) else {
            return Ok(None);
        };
        let words = line.split(u8::is_ascii_whitespace);
        let words = words.filter(|word| !word.is_empty()).map(<[u8]>::to_vec);
        return Ok(Some((end, words.collect())));
    }
    words(bytes)
}

/// The length of the first reply in `bytes`. `None`: it is not complete.
pub(super) fn reply(bytes: &[u8]) -> Framed<usize> {
    value(bytes, 0)
}

/// The channel and the payload, if this complete reply is a message to a subscriber.
pub(super) fn message(reply: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (_, mut words) = words(reply).ok()??;
    let is_message = match words.first()?.as_slice() {
        b"message" | b"smessage" => words.len() == 3,
        b"pmessage" => words.len() == 4,
        _ => false,
    };
    let payload = words.pop()?;
    let channel = words.pop()?;
    is_message.then_some((channel, payload))
}

/// An array that contains only strings.
fn words(bytes: &[u8]) -> Framed<(usize, Vec<Vec<u8>>)> {
    let Some((head, mut at)) = line(bytes, 0) else {
        return Ok(None);
    };
    let mut words = Vec::new();
    for _ in 0..number(head)?.max(0) {
        let Some((head, start)) = line(bytes, at) else {
            return Ok(None);
        };
        if head.first() != Some(&b'$') {
            return Err(ProtocolError);
        }
        let length = usize::try_from(number(head)?).map_err(|_| ProtocolError)?;
        at = start + length + 2;
        if bytes.len() < at {
            return Ok(None);
        }
        words.push(bytes[start..start + length].to_vec());
    }
    Ok(Some((at, words)))
}

/// The end of the value that begins at `at`.
fn value(bytes: &[u8], at: usize) -> Framed<usize> {
    let Some((head, mut end)) = line(bytes, at) else {
        return Ok(None);
    };
    let parts = match head.first() {
        Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => 0,
        Some(b'$' | b'=' | b'!') => {
            if let Ok(length) = usize::try_from(number(head)?) {
                end += length + 2;
            }
            0
        }
        Some(b'*' | b'~' | b'>') => number(head)?,
        Some(b'%') => number(head)? * 2,
        _ => return Err(ProtocolError),
    };
    for _ in 0..parts {
        match value(bytes, end)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok((end <= bytes.len()).then_some(end))
}

/// The line that begins at `at`, without its end, and the beginning of the next one.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..length], at + length + 2))
}

/// The number after the first byte of a header.
fn number(head: &[u8]) -> Result<i64, ProtocolError> {
    let digits = head.get(1..).and_then(|digits| str::from_utf8(digits).ok());
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or(ProtocolError)
}
