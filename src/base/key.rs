//! The names of keys and channels. They equal those of Redisson, byte for byte.

use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name, in bytes.
const MAX_NAME: usize = 512;

/// How many characters of a name that is too long are shown.
const SHOWN: usize = 32;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The names of one lock in Redis. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LockKey(Arc<Names>);

#[derive(Clone, Debug)]
struct Names {
    name: Arc<str>,
    key: Arc<str>,
    channel: Arc<str>,
    family: Family,
    slot: u16,
}

/// What a name in Redis is used for, as far as its keys, its channel and the local queue depend on
/// it. Kinds of locks in one family exclude each other under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    /// A plain or a fenced lock: a hash of owner to hold count.
    Lock,
    /// A fair lock: the same hash, but Redisson gives each waiting thread a channel of its own.
    FairLock,
    ReadWriteLock,
    /// A semaphore, with leases or without.
    Semaphore,
    CountDownLatch,
}

impl Family {
    /// True if several clients at a time are called and granted what they wait for.
    pub(crate) fn has_permits(self) -> bool {
        self == Self::Semaphore
    }

    /// The fields of the hash while `owner` has the lock exclusively; `None` if no owner has all of
    /// it.
    #[cfg(feature = "testing")]
    pub(crate) fn fields_of(self, owner: &str) -> Option<Vec<(String, String)>> {
        match self {
            Self::Lock | Self::FairLock => Some(vec![(owner.into(), "1".into())]),
            Self::ReadWriteLock => Some(vec![
                ("mode".into(), "write".into()),
                (format!("{owner}:write"), "1".into()),
            ]),
            Self::Semaphore | Self::CountDownLatch => None,
        }
    }

    /// The channel that announces releases of a key.
    fn channel(self, key: &str) -> String {
        match self {
            Self::Lock | Self::FairLock => prefixed("redisson_lock__channel", key),
            Self::ReadWriteLock => prefixed("redisson_rwlock", key),
            Self::Semaphore => prefixed("redisson_sc", key),
            // Redisson adds these braces also to a key that has braces of its own.
            Self::CountDownLatch => format!("redisson_countdownlatch__channel__{{{key}}}"),
        }
    }
}

impl LockKey {
    /// The names of a lock with one holder.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self::of(Family::Lock, namespace, name)
    }

    /// Never fails, so that creating a handle never fails. [`check`](Self::check) refuses a bad
    /// name.
    pub(crate) fn of(family: Family, namespace: &str, name: &str) -> Self {
        let key: Arc<str> = match namespace {
            "" => name.into(),
            _ if namespace.ends_with(':') => format!("{namespace}{name}").into(),
            _ => format!("{namespace}:{name}").into(),
        };
        Self(Arc::new(Names {
            name: match namespace {
                "" => Arc::clone(&key),
                _ => name.into(),
            },
            channel: family.channel(&key).into(),
            slot: slot(key.as_bytes()),
            key,
            family,
        }))
    }

    /// Fails if the name is empty or too long.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(&self.0.name)
    }

    pub(crate) fn family(&self) -> Family {
        self.0.family
    }

    /// The slot of the key in a cluster.
    pub(crate) fn slot(&self) -> u16 {
        self.0.slot
    }

    /// Fails if key, channel and token are not in the same slot. By Redisson's rule this happens
    /// for names such as `a}b`, `a{b` and `{}x`.
    pub(crate) fn check_one_slot(&self) -> Result<()> {
        if slot(self.0.channel.as_bytes()) == self.0.slot {
            return Ok(());
        }
        let rule = "in a cluster, braces in a name must enclose a text, as in \"{order}:pay\", and \
                    the name of a latch must have no braces, or else its key and its channel are \
                    in different slots";
        Err(Error::misused(&self.0.name, rule))
    }

    /// The name of the lock, without the namespace.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    /// The key of the hash in Redis. Two locks of a client are the same if their keys are.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// The key that has the owners of what is held: the lock, or the leases of a semaphore.
    pub(crate) fn owners_key(&self) -> String {
        match self.0.family {
            Family::Semaphore => self.leases_key(),
            _ => String::from(&*self.0.key),
        }
    }

    /// The key of the lock's last fencing token.
    pub(crate) fn last_token_key(&self) -> String {
        self.prefixed("redisson_lock_token")
    }

    /// The same names with another channel, which must be in the same slot.
    pub(crate) fn with_channel(&self, channel: String) -> Self {
        Self(Arc::new(Names {
            channel: channel.into(),
            ..(*self.0).clone()
        }))
    }

    /// The key of the leases of a semaphore's permits.
    pub(crate) fn leases_key(&self) -> String {
        self.suffixed("timeout")
    }

    /// The key of the line of clients that wait, as `lua/shared/line_of.lua` makes it.
    pub(crate) fn line_key(&self) -> String {
        let key = &self.0.key;
        let colon = if key.contains('{') { ":" } else { "" };
        prefixed("leasehold_line", &[colon, key].concat())
    }

    /// Another key or channel of the name, by the rule of Redisson's `prefixName`.
    pub(crate) fn prefixed(&self, prefix: &str) -> String {
        prefixed(prefix, &self.0.key)
    }

    /// Another key of the name, by the rule of Redisson's `suffixName`.
    pub(crate) fn suffixed(&self, suffix: &str) -> String {
        suffixed(&self.0.key, suffix)
    }

    /// The channel for messages about releases.
    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.0.channel
    }
}

/// Fails if the name is empty or too long.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        0 => {
            let rule = "must have at least one byte";
            Err(Error::argument("name", "\"\"", rule))
        }
        1..=MAX_NAME => Ok(()),
        bytes => {
            let begin: String = name.chars().take(SHOWN).collect();
            let value = format!("{begin:?}.., {bytes} bytes long");
            Err(Error::argument(
                "name",
                value,
                "must have at most 512 bytes",
            ))
        }
    }
}

/// Redisson's `prefixName`: the key becomes the hash tag, unless it already contains a `{`.
fn prefixed(prefix: &str, key: &str) -> String {
    let [open, close] = braces(key);
    format!("{prefix}:{open}{key}{close}")
}

/// Redisson's `suffixName`: the key becomes the hash tag, unless it already contains a `{`.
fn suffixed(key: &str, suffix: &str) -> String {
    let [open, close] = braces(key);
    format!("{open}{key}{close}:{suffix}")
}

/// What makes the key a hash tag.
fn braces(key: &str) -> [&'static str; 2] {
    if key.contains('{') {
        ["", ""]
    } else {
        ["{", "}"]
    }
}

/// The slot of a key. Only its hash tag counts, if it has one.
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub(crate) fn slot(key: &[u8]) -> u16 {
    let place = |text: &[u8], mark| text.iter().position(|&byte| byte == mark);
    let tag = place(key, b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let tag = &rest[..place(rest, b'}')?];
        (!tag.is_empty()).then_some(tag)
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn channels_follow_redissons_rule() {
        for (name, channel) in [
            ("order:pay", "redisson_lock__channel:{order:pay}"),
            ("{order}:pay", "redisson_lock__channel:{order}:pay"),
            ("a{b", "redisson_lock__channel:a{b"),
            ("a}b", "redisson_lock__channel:{a}b}"),
            ("{}x", "redisson_lock__channel:{}x"),
            ("größe ☃", "redisson_lock__channel:{größe ☃}"),
        ] {
            let key = LockKey::new("", name);
            assert_eq!(&**key.channel(), channel);
            let token = channel.replace("lock__channel", "lock_token");
            assert_eq!(key.last_token_key(), token);
        }
    }

    #[test]
    fn names_with_and_without_braces_have_different_lines() {
        for (name, line) in [("a", "leasehold_line:{a}"), ("{a}", "leasehold_line::{a}")] {
            assert_eq!(LockKey::new("", name).line_key(), line);
        }
    }

    #[test]
    fn each_family_has_a_channel_of_its_own() {
        let channel = |family, name| LockKey::of(family, "", name).channel().to_string();
        for (family, plain, braces) in [
            (
                Family::ReadWriteLock,
                "redisson_rwlock:{a}",
                "redisson_rwlock:{a}b",
            ),
            (Family::Semaphore, "redisson_sc:{a}", "redisson_sc:{a}b"),
            (
                Family::CountDownLatch,
                "redisson_countdownlatch__channel__{a}",
                "redisson_countdownlatch__channel__{{a}b}",
            ),
        ] {
            assert_eq!(channel(family, "a"), plain);
            assert_eq!(channel(family, "{a}b"), braces);
        }
        let key = |name| LockKey::new("", name).suffixed("timeout");
        assert_eq!(
            (key("a"), key("{a}b")),
            ("{a}:timeout".into(), "{a}b:timeout".into())
        );
    }

    #[test]
    fn a_namespace_goes_before_the_name_in_key_and_channel() {
        for namespace in ["app", "app:"] {
            let key = LockKey::new(namespace, "pay");
            assert_eq!(&**key.key(), "app:pay");
            assert_eq!(&**key.channel(), "redisson_lock__channel:{app:pay}");
            assert_eq!(key.name(), "pay");
        }
    }

    #[test]
    fn slots_are_those_of_the_cluster() {
        // The check value of the standard, and replies of CLUSTER KEYSLOT.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [
            ("foo", 12_182),
            ("{user1000}.following", 3_443),
            ("foo{}{bar}", 8_363),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"a}b"), 7_866);
    }

    #[test]
    fn names_with_more_than_one_slot_are_refused() {
        for name in ["order:pay", "{order}:pay", "x{order}", "größe"] {
            let key = LockKey::new("", name);
            assert!(key.check_one_slot().is_ok(), "{name}");
            assert_eq!(slot(key.last_token_key().as_bytes()), key.slot(), "{name}");
        }
        for name in ["a}b", "a{b", "{}x"] {
            assert!(LockKey::new("", name).check_one_slot().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_other_name_is_used_unchanged(name in "\\PC{1,100}") {
            let key = LockKey::new("", &name);
            prop_assert!(key.check().is_ok());
            prop_assert_eq!(&**key.key(), name.as_str());
            let wrapped = key.channel().contains(&format!(":{{{name}}}"));
            prop_assert_eq!(wrapped, !name.contains('{'));
        }
    }
}
