//! What a server sends to a subscriber: messages, and the replies to its commands.

use redis::{ErrorKind, RedisError, Value};

/// The first three elements of pushes such as `["message", channel, text]`,
/// `["subscribe", channel, count]` and `["pong", ""]`. What is no text is empty.
pub(super) fn parts_of(push: &Value) -> Option<(&str, &str, &str)> {
    let Value::Array(parts) = push else {
        return None;
    };
    let text = |at: usize| match parts.get(at)? {
        Value::BulkString(text) => str::from_utf8(text).ok(),
        _ => None,
    };
    Some((text(0)?, text(1)?, text(2).unwrap_or_default()))
}

pub(super) fn is_reply_to(reply: &Value, command: &str, argument: &str) -> bool {
    let kind = match command {
        "PING" => "pong",
        other => other,
    };
    parts_of(reply)
        .is_some_and(|(found, channel, _)| found.eq_ignore_ascii_case(kind) && channel == argument)
}

pub(super) fn unexpected_reply() -> RedisError {
    (ErrorKind::Parse, "an unexpected reply to the subscriber").into()
}
