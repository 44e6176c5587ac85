//! The keys of the server: their values, and when they expire.

use std::collections::{BTreeMap, VecDeque};

/// Why a command failed: the code and the text of the error reply.
pub(super) type Failure = String;

/// The value of a key. The fields of a hash are in the order in which they were written, as in
/// small hashes of Redis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Vec<u8>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    List(VecDeque<Vec<u8>>),
    /// In the order of the scores, and then of the members.
    SortedSet(Vec<(f64, Vec<u8>)>),
}

impl Value {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::SortedSet(members) => members.is_empty(),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// In milliseconds since 1970.
    expires: Option<i64>,
}

/// All keys, and the time by which they expire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// In microseconds since 1970.
    now: i64,
}

impl Keyspace {
    pub(crate) fn set_time(&mut self, micros: i64) {
        self.now = micros;
    }

    /// The time in microseconds since 1970.
    pub(crate) fn now_micros(&self) -> i64 {
        self.now
    }

    pub(crate) fn now_millis(&self) -> i64 {
        self.now / 1000
    }

    /// Removes the key if it has expired. As in Redis, a command still finds it in the millisecond
    /// in which it expires.
    fn expire(&mut self, key: &[u8]) {
        let now = self.now_millis();
        let expires = self.entries.get(key).and_then(|entry| entry.expires);
        if expires.is_some_and(|expires| expires < now) {
            self.entries.remove(key);
        }
    }

    /// Removes all keys that have expired. As Redis in the background, it does not wait for the end
    /// of the millisecond in which a key expires.
    pub(crate) fn expire_all(&mut self) {
        let now = self.now_millis();
        self.entries
            .retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut Value> {
        self.expire(key);
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// The value of the key, or this one, with which the key is created.
    pub(crate) fn get_or_create(&mut self, key: &[u8], new: Value) -> &mut Value {
        self.expire(key);
        let entry = self.entries.entry(key.to_vec());
        let entry = entry.or_insert(Entry {
            value: new,
            expires: None,
        });
        &mut entry.value
    }

    /// Replaces the key, and removes its expiry.
    pub(crate) fn set(&mut self, key: &[u8], value: Value) {
        let expires = None;
        self.entries.insert(key.to_vec(), Entry { value, expires });
    }

    /// Removes a key whose last element is gone.
    pub(crate) fn tidy(&mut self, key: &[u8]) {
        if self
            .entries
            .get(key)
            .is_some_and(|one| one.value.is_empty())
        {
            self.entries.remove(key);
        }
    }

    /// Returns whether the key existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.expire(key);
        self.entries.remove(key).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let now = self.now_millis();
        let entries = self.entries.iter();
        let lasting = entries.filter(|(_, entry)| entry.expires.is_none_or(|end| end >= now));
        lasting.map(|(key, _)| key.clone()).collect()
    }

    /// What is left of the time to live, in milliseconds; -1 without an expiry, -2 without a key.
    pub(crate) fn time_to_live(&mut self, key: &[u8]) -> i64 {
        self.expire(key);
        let now = self.now_millis();
        let entry = self.entries.get(key);
        entry.map_or(-2, |entry| {
            entry.expires.map_or(-1, |expires| expires - now)
        })
    }

    /// Sets the time to live in milliseconds, or removes the expiry. A time that is not positive
    /// removes the key. Returns whether the key existed.
    pub(crate) fn set_time_to_live(&mut self, key: &[u8], millis: Option<i64>) -> bool {
        self.expire(key);
        let now = self.now_millis();
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        entry.expires = millis.map(|millis| now.saturating_add(millis));
        if millis.is_some_and(|millis| millis <= 0) {
            self.entries.remove(key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"key";

    /// A key that expires at the fifth millisecond, at this one.
    fn at_millis(now: i64) -> Keyspace {
        let mut keys = Keyspace::default();
        keys.set(KEY, Value::Text(Vec::new()));
        assert!(keys.set_time_to_live(KEY, Some(5)));
        keys.set_time(now * 1000);
        keys
    }

    /// Also by its time to live, which is zero then.
    #[test]
    fn a_key_is_found_in_the_millisecond_in_which_it_expires_and_not_later() {
        for (now, left) in [(4, 1), (5, 0), (6, -2)] {
            let is_there = left >= 0;
            assert_eq!(at_millis(now).time_to_live(KEY), left);
            assert_eq!(at_millis(now).get(KEY).is_some(), is_there, "{now}");
            assert_eq!(at_millis(now).keys().len(), usize::from(is_there), "{now}");
            assert_eq!(at_millis(now).remove(KEY), is_there, "{now}");
        }
    }

    #[test]
    fn the_background_removes_a_key_in_the_millisecond_in_which_it_expires() {
        for (now, is_there) in [(4, true), (5, false)] {
            let mut keys = at_millis(now);
            keys.expire_all();
            assert_eq!(keys.get(KEY).is_some(), is_there, "{now}");
        }
    }

    #[test]
    fn a_time_to_live_that_is_not_positive_removes_the_key() {
        for millis in [0, -1] {
            let mut keys = at_millis(0);
            assert!(keys.set_time_to_live(KEY, Some(millis)));
            assert_eq!(keys.time_to_live(KEY), -2);
        }
    }
}
