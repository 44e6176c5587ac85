//! The two locks of a read-write lock. They share a hash, a channel and the local queue.

use super::Kind;
use super::plain::{PLAIN, in_line};
use crate::base::{Family, OwnerId};
use crate::script;

/// The read lock: several owners hold it at the same time.
pub(crate) static READ: Kind = Kind {
    name: "read",
    family: Family::ReadWriteLock,
    is_shared: true,
    is_joinable: false,
    to_acquire: &script::READ_WRITE_ACQUIRE,
    to_release: &script::READ_WRITE_RELEASE,
    to_inspect: (&script::INSPECT, "read"),
    options: |call, _keys, _owner, options| {
        let within = options.within.as_ref().map(writer);
        in_line(call, options)
            .arg("read")
            .arg(within.unwrap_or_default())
    },
    // The count is information, and when a Redisson client unlocks, it sends one command for each
    // hold of each reader.
    largest_count: Some(64),
    ..PLAIN
};

/// The write lock.
pub(crate) static WRITE: Kind = Kind {
    name: "write",
    family: Family::ReadWriteLock,
    is_joinable: false,
    to_acquire: &script::READ_WRITE_ACQUIRE,
    to_release: &script::READ_WRITE_RELEASE,
    to_inspect: (&script::INSPECT, "write"),
    written: |owner| writer(owner).into_bytes().into(),
    options: |call, _keys, _owner, options| in_line(call, options).arg("write").arg(""),
    ..PLAIN
};

/// The fields of a writer with these names.
fn writer(owner: &OwnerId) -> String {
    owner.as_str().replace(' ', ":write ") + ":write"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_has_a_field_for_each_of_its_names() {
        let owner = OwnerId::new("client");
        assert_eq!(writer(&owner), format!("{}:write", owner.as_str()));
        let both = owner.with_fresh_name();
        let (newest, _) = both.split();
        let expected = format!("{}:write {}:write", newest.as_str(), owner.as_str());
        assert_eq!(writer(&both), expected);
        assert_eq!(both.client(), "client");
    }
}
