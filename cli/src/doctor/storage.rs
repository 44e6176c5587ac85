//! Whether the server keeps its data: version, memory and disk.

use super::facts::Facts;
use super::finding::Finding;

/// The percentage of `maxmemory` from which there is a warning.
const MUCH_MEMORY: u64 = 90;

pub(super) fn version(info: &Facts) -> Finding {
    const CHECK: &str = "version";
    let Some(version) = info.get("redis_version") else {
        return Finding::unknown(CHECK, info.why_not());
    };
    let mut parts = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Finding::unknown(CHECK, format!("{version} is not a version of Redis"));
    };
    // Valkey reports the version of Redis with which it is compatible, and beside it its own.
    let found = match info.get("valkey_version") {
        Some(own) => format!("Valkey {own}"),
        None => format!("Redis {version}"),
    };
    if (major, minor) < (5, 0) {
        let advice = "update it: leasehold needs Redis 5 or later, better 6.2";
        return Finding::failure(CHECK, found, advice);
    }
    if (major, minor) < (6, 2) {
        let advice = "update it to 6.2 or later: older versions are not maintained, and have no \
                      permissions for channels";
        return Finding::warning(CHECK, found, advice);
    }
    Finding::ok(CHECK, found)
}

pub(super) fn eviction(info: &Facts) -> Finding {
    const CHECK: &str = "eviction";
    let (Some(policy), Some(limit)) = (info.get("maxmemory_policy"), info.number("maxmemory"))
    else {
        return Finding::unknown(CHECK, info.why_not());
    };
    match (policy, limit) {
        ("noeviction", _) => Finding::ok(CHECK, "noeviction: no lock is evicted"),
        (_, 0) => Finding::warning(
            CHECK,
            format!(
                "{policy}, but no maxmemory: once it is set, locks may be evicted while they are \
                 held"
            ),
            "set maxmemory-policy noeviction, or use a server for locks only",
        ),
        _ => Finding::failure(
            CHECK,
            format!("{policy}: if memory is short, locks are evicted while they are held"),
            "set maxmemory-policy noeviction, or use a server for locks only",
        ),
    }
}

pub(super) fn memory(info: &Facts) -> Finding {
    const CHECK: &str = "memory";
    let (Some(used), Some(limit)) = (info.number("used_memory"), info.number("maxmemory")) else {
        return Finding::unknown(CHECK, info.why_not());
    };
    if limit == 0 {
        return Finding::ok(CHECK, format!("{} used, without a limit", bytes(used)));
    }
    let hundredths = used.saturating_mul(100) / limit;
    let found = format!("{} used, {hundredths} % of maxmemory", bytes(used));
    if hundredths < MUCH_MEMORY {
        return Finding::ok(CHECK, found);
    }
    let advice =
        "raise maxmemory, or find what fills it: at the limit no lock can be acquired (OOM)";
    Finding::warning(CHECK, found, advice)
}

/// `settings`: `save`, `appendfsync`, `stop-writes-on-bgsave-error`.
pub(super) fn persistence(info: &Facts, settings: &Facts) -> Finding {
    const CHECK: &str = "persistence";
    let Some(aof) = info.get("aof_enabled") else {
        return Finding::unknown(CHECK, info.why_not());
    };
    let failed = |name| info.get(name).is_some_and(|status| status != "ok");
    let saves = settings.get("save").map(|save| !save.is_empty());
    let writes_on = settings.get("stop-writes-on-bgsave-error") == Some("no");
    if aof == "1" && failed("aof_last_write_status") {
        let found = "the last write to the append-only file failed: Redis refuses locks (MISCONF)";
        return Finding::failure(CHECK, found, "check the disk and the log of the server");
    }
    if failed("rdb_last_bgsave_status") && saves != Some(false) {
        let advice = "check the disk, the memory that a fork needs, and the log of the server";
        return if writes_on {
            Finding::warning(CHECK, "the last save failed", advice)
        } else {
            let found = "the last save failed: Redis refuses locks (MISCONF) until one succeeds";
            Finding::failure(CHECK, found, advice)
        };
    }
    match (aof == "1", settings.get("appendfsync"), saves) {
        (true, Some("no"), _) => Finding::note(
            CHECK,
            "an append-only file, which the system writes to the disk when it likes: a power cut \
             loses locks",
        ),
        (true, Some(when), _) => {
            Finding::ok(CHECK, format!("an append-only file, appendfsync {when}"))
        }
        (true, None, _) => Finding::ok(CHECK, "an append-only file"),
        (false, _, Some(true)) => Finding::note(
            CHECK,
            "only saves from time to time: a crash loses the locks since the last one \
             (appendonly yes keeps them)",
        ),
        (false, _, Some(false)) => Finding::warning(
            CHECK,
            "nothing is written to the disk: a restart frees all locks, also those that are held",
            "set appendonly yes",
        ),
        (false, _, None) => Finding::unknown(
            CHECK,
            format!(
                "no append-only file; whether there are saves: {}",
                settings.why_not()
            ),
        ),
    }
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut scaled, mut unit) = (count, 0);
    while scaled >= 10 * 1024 && unit + 1 < UNITS.len() {
        scaled /= 1024;
        unit += 1;
    }
    format!("{scaled} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::tests::{facts, refused};
    use crate::doctor::finding::Verdict::{self, Failure, Note, Ok, Unknown, Warning};

    #[test]
    fn old_versions_are_reported() {
        for (number, verdict) in [
            ("2.8.19", Failure),
            ("4.0.14", Failure),
            ("5.0.0", Warning),
            ("6.0.20", Warning),
            ("6.2.0", Ok),
            ("7.0.15", Ok),
            ("10.0.1", Ok),
            ("unstable", Unknown),
        ] {
            let found = version(&facts(&format!("redis_version:{number}\r\n")));
            assert_eq!(found.verdict, verdict, "{number}");
        }
    }

    /// The values of Valkey 7.2.5 and 9.1, and of Redis 8.2.
    #[test]
    fn valkey_has_its_own_name_and_version() {
        let told = |info: &str| version(&facts(info));
        for (own, expected) in [("7.2.5", "Valkey 7.2.5"), ("9.1.0", "Valkey 9.1.0")] {
            let found = told(&format!(
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{own}\r\n"
            ));
            assert_eq!((found.verdict, &*found.found), (Ok, expected));
        }
        let found = told("redis_version:8.2.1\r\nredis_mode:standalone\r\n");
        assert_eq!((found.verdict, &*found.found), (Ok, "Redis 8.2.1"));
    }

    #[test]
    fn only_noeviction_is_ok() {
        for (policy, limit, verdict) in [
            ("noeviction", 0, Ok),
            ("noeviction", 1000, Ok),
            ("allkeys-lru", 0, Warning),
            ("allkeys-lru", 1000, Failure),
            // Locks have a time to live, so they are volatile keys.
            ("volatile-ttl", 1000, Failure),
        ] {
            let info = facts(&format!(
                "maxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            ));
            assert_eq!(eviction(&info).verdict, verdict, "{policy} {limit}");
        }
    }

    #[test]
    fn memory_that_is_nearly_full_is_a_warning() {
        for (used, limit, verdict) in [(5_000, 0, Ok), (899, 1000, Ok), (900, 1000, Warning)] {
            let info = facts(&format!("used_memory:{used}\r\nmaxmemory:{limit}\r\n"));
            assert_eq!(memory(&info).verdict, verdict, "{used} of {limit}");
        }
        assert_eq!(bytes(9_999), "9999 B");
        assert_eq!(bytes(3 << 30), "3072 MiB");
    }

    fn settings(save: &str, stop: &str) -> Facts {
        facts(&format!(
            "save:{save}\r\nstop-writes-on-bgsave-error:{stop}\r\nappendfsync:everysec\r\n"
        ))
    }

    #[test]
    fn persistence_is_reported() {
        let judged = |aof: u8, save: &str, writes: &str, settings: &Facts| -> Verdict {
            let info = format!(
                "aof_enabled:{aof}\r\naof_last_write_status:{writes}\r\n\
                 rdb_last_bgsave_status:{save}\r\n"
            );
            persistence(&facts(&info), settings).verdict
        };
        let (saving, not_saving) = (settings("3600 1", "yes"), settings("", "yes"));
        assert_eq!(judged(1, "ok", "ok", &not_saving), Ok);
        assert_eq!(judged(1, "ok", "ok", &refused()), Ok);
        assert_eq!(judged(0, "ok", "ok", &saving), Note);
        assert_eq!(judged(0, "ok", "ok", &not_saving), Warning);
        assert_eq!(judged(0, "ok", "ok", &refused()), Unknown);
        assert_eq!(judged(1, "ok", "err", &saving), Failure);
        assert_eq!(judged(0, "err", "ok", &saving), Failure);
        assert_eq!(judged(0, "err", "ok", &refused()), Failure);
        assert_eq!(judged(0, "err", "ok", &settings("3600 1", "no")), Warning);
        // Without saves, a failed save stops nothing.
        assert_eq!(judged(1, "err", "ok", &not_saving), Ok);
    }

    #[test]
    fn a_missing_value_is_unknown() {
        let none = refused();
        for finding in [
            version(&none),
            eviction(&none),
            memory(&none),
            persistence(&none, &none),
        ] {
            assert_eq!(finding.verdict, Unknown, "{finding:?}");
            assert!(finding.found.contains("may not use INFO"), "{finding:?}");
        }
    }
}
