//! One key in Redis that is a lock or a semaphore, as text and as JSON.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::name::shown;
use leasehold::Holder;
use leasehold::admin::ConnectedClients;

/// A lock that is held, or a semaphore.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Of a semaphore, until the last lease ends. `None`: it never ends.
    pub(super) time_to_live: Option<Duration>,
    pub(super) server: Arc<str>,
    /// The process of the only owner, if it is known.
    pub(super) holder: Option<Holder>,
}

/// One of those that share a lock or a semaphore, or that wait for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// The place in the queue of a fair lock, the owner of a read lock, or the id of a permit in
    /// hexadecimal.
    pub(super) who: String,
    /// Of a reader.
    pub(super) count: Option<u64>,
    /// `None`: it never ends.
    pub(super) time_to_live: Option<Duration>,
    /// Its process, if it is known.
    pub(super) holder: Option<Holder>,
}

impl Row {
    pub(super) fn shown_name(&self) -> String {
        shown(&self.name)
    }

    /// Looks up the process of the owner.
    pub(super) fn find_holder(&mut self, clients: &ConnectedClients) {
        let hold = self.kind.hold();
        self.holder = hold.and_then(|hold| clients.holder(&hold.owner));
    }

    pub(super) fn shown_kind(&self) -> &'static str {
        self.kind.name().unwrap_or("unknown")
    }

    /// A minus if there is not exactly one owner.
    pub(super) fn shown_owner(&self) -> &str {
        self.kind.hold().map_or("-", |hold| &hold.owner)
    }

    /// The process of the owner, or else the owner.
    pub(super) fn shown_holder(&self) -> String {
        let owner = || self.shown_owner().to_owned();
        self.holder.as_ref().map_or_else(owner, Holder::to_string)
    }

    /// Of a number, the number.
    pub(super) fn shown_count(&self) -> String {
        match &self.kind {
            Kind::Number(number) => number.to_string(),
            kind => kind.count().map_or("-".into(), |count| count.to_string()),
        }
    }

    pub(super) fn shown_time(&self) -> String {
        shown_time(self.time_to_live)
    }

    /// The process, the hold count and the time to live.
    pub(super) fn details(&self) -> String {
        details(self.holder.as_ref(), self.kind.count(), self.time_to_live)
    }

    /// For scripts. The keys stay; more can be added.
    pub(super) fn json(&self, with_server: bool) -> Value {
        let mut object = json!({
            "name": self.name,
            "kind": self.kind.name(),
            "owner": self.kind.hold().map(|hold| &hold.owner),
            "count": self.kind.count(),
            "ttl_ms": millis(self.time_to_live),
        });
        let (key, number) = match &self.kind {
            Kind::Lock { waiting, .. } => ("waiting", json!((*waiting > 0).then_some(waiting))),
            kind @ Kind::ReadWrite { .. } => ("readers", json!(kind.shares())),
            Kind::Permits { available, .. } => ("available", json!(available)),
            Kind::Number(number) => ("number", json!(number)),
        };
        set(&mut object, key, number);
        set(&mut object, "holder", holder_json(self.holder.as_ref()));
        set(&mut object, "server", with_server.then_some(&*self.server));
        object
    }
}

impl Share {
    pub(super) fn new(who: String, count: Option<u64>, time_to_live: Option<Duration>) -> Self {
        Self {
            who,
            count,
            time_to_live,
            holder: None,
        }
    }

    /// The process, the hold count and the time to live.
    pub(super) fn details(&self) -> String {
        details(self.holder.as_ref(), self.count, self.time_to_live)
    }

    /// For scripts. `who`: the key of its name.
    pub(super) fn json(&self, who: &str) -> Value {
        let mut object = json!({who: self.who, "ttl_ms": millis(self.time_to_live)});
        set(&mut object, "holder", holder_json(self.holder.as_ref()));
        set(&mut object, "count", self.count);
        object
    }
}

/// Sets a key of an object, unless the value is null.
pub(super) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    match value.into() {
        Value::Null => {}
        value => object[key] = value,
    }
}

fn details(holder: Option<&Holder>, count: Option<u64>, left: Option<Duration>) -> String {
    let holder = holder.map(|holder| format!("{holder}; "));
    let count = count.map(|count| format!("count {count}, "));
    let (holder, count) = (holder.unwrap_or_default(), count.unwrap_or_default());
    format!("({holder}{count}time to live {})", shown_time(left))
}

fn holder_json(holder: Option<&Holder>) -> Option<Value> {
    holder.map(|holder| json!({"host": holder.host, "process_id": holder.process_id}))
}

fn shown_time(left: Option<Duration>) -> String {
    left.map_or("never".into(), |left| format!("{:.1}s", left.as_secs_f64()))
}

fn millis(left: Option<Duration>) -> Option<u64> {
    left.map(|left| left.as_millis() as u64)
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kinds::{Fencing, Hold};

    /// A lock with this name and hold count.
    pub(crate) fn row(name: &str, count: u64) -> Row {
        let owner = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:1".into();
        Row {
            name: name.into(),
            kind: Kind::Lock {
                hold: Hold { owner, count },
                fencing: Fencing::Never,
                waiting: 0,
            },
            time_to_live: Some(Duration::from_secs(30)),
            server: "h:1".into(),
            holder: None,
        }
    }

    #[test]
    fn a_time_has_tenths_of_seconds() {
        let mut row = row("a", 1);
        assert_eq!(row.shown_time(), "30.0s");
        row.time_to_live = None;
        assert_eq!(row.shown_time(), "never");
        assert_eq!(row.json(false)["ttl_ms"], json!(null));
    }
}
