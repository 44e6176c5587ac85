//! The names of keys that belong to a lock or semaphore of another name.

/// The end of the key of leased permits: Redisson derives it from the name of the semaphore.
pub(crate) const LEASES: &[u8] = b":timeout";

/// True for a string that belongs to a lock: its last token, the lease of a reader, or Redisson's
/// reply to a release.
pub(crate) fn is_beside_a_lock(key: &[u8]) -> bool {
    let lease = b":rwlock_timeout:";
    key.starts_with(b"redisson_lock_token:")
        || key.starts_with(b"redisson_unlock_latch:")
        || key.windows(lease.len()).any(|part| part == lease)
}

/// The semaphores that have their leased permits in this key: `a` and `{a}` share one.
pub(crate) fn semaphores_of(leases: &[u8]) -> [Option<&[u8]>; 2] {
    let tagged = leases.strip_suffix(LEASES).unwrap_or_default();
    let inner = tagged
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"))
        .filter(|name| !name.is_empty() && !name.contains(&b'{'));
    [inner, tagged.contains(&b'{').then_some(tagged)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::LockClient;
    use leasehold::admin::LockKeys;

    #[test]
    fn a_semaphore_is_found_by_the_key_of_its_leased_permits() {
        let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
        for name in ["api", "{api}", "{api}:calls", "a{p}i", "a}b", "größe"] {
            let leases = LockKeys::new(&client, name).leases;
            let found = semaphores_of(leases.as_bytes());
            assert!(found.contains(&Some(name.as_bytes())), "{name}: {leases}");
        }
        for other in ["api:timeout", "{api}", "{}:time", ":timeout"] {
            assert_eq!(semaphores_of(other.as_bytes()), [None, None], "{other}");
        }
    }

    #[test]
    fn what_belongs_to_a_lock_is_no_number_of_its_own() {
        let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
        let keys = LockKeys::new(&client, "a");
        for key in [&keys.last_token, &keys.read_lease("uuid:7", 1)] {
            assert!(is_beside_a_lock(key.as_bytes()), "{key}");
        }
        assert!(!is_beside_a_lock(b"a"));
    }
}
