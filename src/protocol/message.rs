//! The messages that scripts publish, and the places of clients in lines.
//!
//! | message | channel | meaning | published by, in `lua/` |
//! |---|---|---|---|
//! | `called KEY` | a place | the client is called | `shared/line.lua`, `shared/permit_line.lua` |
//! | `freed KEY` | control channel | the lock was deleted | `force_unlock.lua` |
//! | empty | a place | none: is the client alive? | `shared/permit_line.lua` |
//! | `0`, `1` | that of a lock | a lock, or a write lock, was released | `release.lua`, `leave.lua`, `read_write_release.lua`, `force_unlock.lua`, `shared/fair_head.lua` |
//! | `N`; `+N` | that of a semaphore | permits are free; and clients in its line were called | `shared/permit_line.lua`, `change_number.lua`, `permit_release.lua` |
//! | `N` | that of a latch | its count | `change_number.lua` |
//! | `N N ..` | that of a client, for a condition | these waiters need not wait | `shared/waiters.lua` |
//!
//! Redisson publishes and reads the numbers. `RELEASED` and the command (`cli/src/permits.rs`) are
//! published without a script.
//!
//! A place in a line is the channel on which the client is called. It begins with [`DEAF`] if the
//! client may not subscribe.

use std::sync::Arc;

const CALLED: &str = "called ";
const FREED: &str = "freed ";

/// The first character of the place of a client that may not subscribe. Such a client gets no
/// message and asks often (`lua/shared/line.lua`).
const DEAF: char = '~';

/// A lock was released.
pub(crate) const RELEASED: &str = "0";

/// The first character of a message whose script has called the clients in the line.
const HAS_CALLED: char = '+';

/// Which messages of a channel wake a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Every message.
    All,
    /// All but those whose script has called the clients in the line: for a thread that waits in
    /// the line, and also listens to the channel for releases.
    ExceptCalls,
    /// Those with this number: for a thread that waits on a condition.
    Number(u64),
}

impl Filter {
    pub(crate) fn accepts(self, message: Message<'_>) -> bool {
        match (self, message) {
            (Self::ExceptCalls, Message::Numbers { has_called, .. }) => !has_called,
            (Self::Number(expected), Message::Numbers { text, .. }) => {
                text.split(' ').any(|number| number.parse() == Ok(expected))
            }
            (Self::Number(_), _) => false,
            (Self::All | Self::ExceptCalls, _) => true,
        }
    }
}

/// A message, as far as its text shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The client is called for the lock or the semaphore with this key.
    Called(&'a str),
    /// The lock with this key was taken from its holders.
    Freed(&'a str),
    /// For no thread.
    Empty,
    /// Numbers, separated by spaces.
    Numbers {
        text: &'a str,
        /// Clients in the line have been called.
        has_called: bool,
    },
}

impl<'a> Message<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        if let Some(key) = text.strip_prefix(CALLED) {
            Self::Called(key)
        } else if let Some(key) = text.strip_prefix(FREED) {
            Self::Freed(key)
        } else if text.is_empty() {
            Self::Empty
        } else {
            let has_called = text.starts_with(HAS_CALLED);
            Self::Numbers { text, has_called }
        }
    }

    /// The key of a call; `None` for another message.
    pub(crate) fn called(text: &'a str) -> Option<&'a str> {
        match Self::parse(text) {
            Self::Called(key) => Some(key),
            _ => None,
        }
    }
}

/// The message that calls a client for this key. Threads that are called on the control channel
/// listen under this name.
pub(crate) fn call_of(key: &str) -> Arc<str> {
    format!("{CALLED}{key}").into()
}

/// The place of a client that may not subscribe, made from its place otherwise.
pub(crate) fn deaf(place: &str) -> Arc<str> {
    format!("{DEAF}{place}").into()
}

/// True for the place of a client that may not subscribe.
pub(crate) fn is_deaf(place: &str) -> bool {
    place.starts_with(DEAF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed() {
        let numbers = |text, has_called| Message::Numbers { text, has_called };
        for (text, expected) in [
            ("called a b", Message::Called("a b")),
            ("freed a", Message::Freed("a")),
            ("", Message::Empty),
            (RELEASED, numbers("0", false)),
            ("12 3", numbers("12 3", false)),
            ("+7", numbers("+7", true)),
            // The number of permits was set to less than are taken.
            ("-7", numbers("-7", false)),
        ] {
            assert_eq!(Message::parse(text), expected);
        }
        assert_eq!(Message::called(&call_of("a")), Some("a"));
        assert!(is_deaf(&deaf("a")) && !is_deaf("a"));
    }

    /// The scripts write what [`Message::parse`] reads.
    #[test]
    fn the_scripts_publish_these_messages() {
        let line = include_str!("../../lua/shared/line.lua");
        let permit_line = include_str!("../../lua/shared/permit_line.lua");
        let force_unlock = include_str!("../../lua/force_unlock.lua");
        for (script, code) in [
            (line, format!("'{CALLED}' .. lock")),
            (permit_line, format!("'{CALLED}' .. lock")),
            (force_unlock, format!("'{FREED}' .. lock")),
            (line, format!("'^{DEAF}'")),
            (permit_line, format!("== '{DEAF}'")),
            (permit_line, format!("'%{HAS_CALLED}.0f'")),
        ] {
            assert!(script.contains(&code), "{code}");
        }
    }
}
