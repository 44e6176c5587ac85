//! One key in Redis that is a lock or a semaphore, as text and as JSON.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kinds::{Fencing, Kind};
use super::name::shown;
use leasehold::Holder;
use leasehold::admin::ConnectedClients;

/// A lock that is held, or a semaphore.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    /// Of a semaphore, until the last lease ends. `None`: it never ends.
    pub(super) time_to_live: Option<Duration>,
    pub(super) server: Arc<str>,
    /// The process of the only owner, if it is known.
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

    pub(super) fn token(&self) -> Option<u64> {
        match self.kind {
            Kind::Lock {
                fencing: Fencing::Last(token),
                ..
            } => Some(token),
            _ => None,
        }
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

    /// For scripts. The keys stay; more can be added.
    pub(super) fn json(&self, with_server: bool) -> Value {
        let mut object = json!({
            "name": String::from_utf8_lossy(&self.name),
            "kind": self.kind.name(),
            "owner": self.kind.hold().map(|hold| &hold.owner),
            "count": self.kind.count(),
            "ttl_ms": millis(self.time_to_live),
        });
        if std::str::from_utf8(&self.name).is_err() {
            object["name_hex"] = hex(&self.name).into();
        }
        if let Some(holder) = &self.holder {
            object["holder"] = holder_json(holder);
        }
        match &self.kind {
            Kind::Lock { waiting: 0, .. } => {}
            Kind::Lock { waiting, .. } => object["waiting"] = json!(waiting),
            Kind::ReadWrite { readers, .. } => object["readers"] = json!(readers.len()),
            Kind::Permits { available, .. } => object["available"] = json!(available),
            Kind::Number(number) => object["number"] = json!(number),
        }
        if with_server {
            object["server"] = json!(&*self.server);
        }
        object
    }
}

/// For scripts.
pub(super) fn holder_json(holder: &Holder) -> Value {
    json!({"host": holder.host, "process_id": holder.process_id})
}

pub(super) fn shown_time(left: Option<Duration>) -> String {
    left.map_or("never".into(), |left| format!("{:.1}s", left.as_secs_f64()))
}

/// Milliseconds for JSON.
pub(super) fn millis(left: Option<Duration>) -> Option<u64> {
    left.map(|left| left.as_millis() as u64)
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kinds::Hold;

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

    #[test]
    fn what_has_no_owner_shows_none() {
        let mut row = row("a", 1);
        row.kind = Kind::Permits {
            leased: 3,
            available: 2,
        };
        let cells = (row.shown_kind(), row.shown_owner(), &*row.shown_count());
        assert_eq!(cells, ("permits", "-", "3"));
        assert_eq!(row.json(false)["owner"], json!(null));
        row.kind = Kind::Number(-2);
        let cells = (row.shown_kind(), row.shown_owner(), &*row.shown_count());
        assert_eq!(cells, ("number", "-", "-2"));
        let json = row.json(false);
        assert_eq!(
            (&json["count"], &json["number"]),
            (&json!(null), &json!(-2))
        );
    }
}
