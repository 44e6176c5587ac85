//! Whether the server keeps its data: memory and disk. A check returns `None` if the server does
//! not report it.

use super::facts::Facts;
use super::finding::Finding;
use super::finding::Verdict::{Failure, Note, Ok, Unknown, Warning};

pub(super) fn eviction(info: &Facts) -> Option<Finding> {
    let advice = "set maxmemory-policy noeviction, or use a server for locks only";
    let (policy, limit) = (info.get("maxmemory_policy")?, info.number("maxmemory")?);
    let (verdict, risk) = match (policy, limit) {
        ("noeviction", _) => return Some(Ok.of("noeviction: no lock is evicted")),
        (_, 0) => (Warning, ", but no maxmemory: once it is set, locks may be"),
        _ => (Failure, ": if memory is short, locks are"),
    };
    let found = format!("{policy}{risk} evicted while they are held");
    Some(verdict.advise(found, advice))
}

pub(super) fn memory(info: &Facts) -> Option<Finding> {
    let (used, limit) = (info.number("used_memory")?, info.number("maxmemory")?);
    let shown = bytes(used);
    let Some(percent) = used.saturating_mul(100).checked_div(limit) else {
        return Some(Ok.of(format!("{shown} used, without a limit")));
    };
    let found = format!("{shown} used, {percent} % of maxmemory");
    let advice =
        "raise maxmemory, or find what fills it: at the limit no lock can be acquired (OOM)";
    Some(Finding::of_use(found, percent, advice))
}

/// `settings`: `save`, `appendfsync`, `stop-writes-on-bgsave-error`.
pub(super) fn persistence(info: &Facts, settings: &Facts) -> Option<Finding> {
    let has_aof = info.get("aof_enabled")? == "1";
    let failed = |name| info.get(name).is_some_and(|status| status != "ok");
    let saves = settings.get("save").map(|save| !save.is_empty());
    let writes_on = settings.get("stop-writes-on-bgsave-error") == Some("no");
    if has_aof && failed("aof_last_write_status") {
        let found = "the last write to the append-only file failed: Redis refuses locks (MISCONF)";
        return Some(Failure.advise(found, "check the disk and the log of the server"));
    }
    if failed("rdb_last_bgsave_status") && saves != Some(false) {
        let advice = "check the disk, the memory that a fork needs, and the log of the server";
        let found = "the last save failed: Redis refuses locks (MISCONF) until one succeeds";
        let (verdict, found) = match writes_on {
            true => (Warning, "the last save failed"),
            false => (Failure, found),
        };
        return Some(verdict.advise(found, advice));
    }
    Some(match (has_aof, settings.get("appendfsync"), saves) {
        (true, Some("no"), _) => Note.of(
            "an append-only file, which the system writes to the disk when it likes: a power cut \
             loses locks",
        ),
        (true, Some(when), _) => Ok.of(format!("an append-only file, appendfsync {when}")),
        (true, None, _) => Ok.of("an append-only file"),
        (false, _, Some(true)) => Note.of(
            "only saves from time to time: a crash loses the locks since the last one \
             (appendonly yes keeps them)",
        ),
        (false, _, Some(false)) => Warning.advise(
            "nothing is written to the disk: a restart frees all locks, also those that are held",
            "set appendonly yes",
        ),
        (false, _, None) => Unknown.of(format!(
            "no append-only file; whether there are saves: {}",
            settings.why_not
        )),
    })
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
    use crate::doctor::finding::Verdict;

    fn settings(save: &str, stop: &str) -> Facts {
        facts(&format!(
            "save:{save}\r\nstop-writes-on-bgsave-error:{stop}\r\nappendfsync:everysec\r\n"
        ))
    }

    #[test]
    fn memory_that_is_nearly_full_is_a_warning() {
        for (used, limit, verdict) in [(5_000, 0, Ok), (899, 1000, Ok), (900, 1000, Warning)] {
            let info = facts(&format!("used_memory:{used}\r\nmaxmemory:{limit}\r\n"));
            assert_eq!(memory(&info).unwrap().verdict, verdict, "{used} of {limit}");
        }
        assert_eq!(bytes(9_999), "9999 B");
        assert_eq!(bytes(3 << 30), "3072 MiB");
    }

    #[test]
    fn persistence_is_reported() {
        let judged = |aof: u8, save: &str, writes: &str, settings: &Facts| -> Verdict {
            let info = format!(
                "aof_enabled:{aof}\r\naof_last_write_status:{writes}\r\n\
                 rdb_last_bgsave_status:{save}\r\n"
            );
            persistence(&facts(&info), settings).unwrap().verdict
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
        for finding in [eviction(&none), memory(&none), persistence(&none, &none)] {
            assert_eq!(finding, None);
        }
    }
}
