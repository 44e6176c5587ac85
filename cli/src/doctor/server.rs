//! What a server is: whether it can be reached, its role, and whether it evicts keys.

use std::collections::HashMap;

use super::clock::Reading;
use super::finding::Finding;
use super::finding::Verdict::{Failure, Ok, Unknown, Warning};

/// The finding about a server that executes no commands.
pub(super) fn out_of_reach(error: String) -> Finding {
    let advice = "check that Redis runs there, that the URL is right, and that --timeout is long \
                  enough";
    Failure.advise(error, advice)
}

/// The finding about a server that executes commands, and the reading of its clock.
pub(super) fn reached(reading: Option<&Reading>) -> Finding {
    Ok.of(match reading.map(Reading::trip) {
        Some(trip) => format!("logged in, {trip:.1?} for a round trip"),
        None => "logged in".into(),
    })
}

/// The reply to INFO: values by their names. Empty if it was refused.
pub(super) struct Info(HashMap<String, String>);

impl Info {
    pub(super) fn of(reply: Option<String>) -> Self {
        let text = reply.unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        let owned = pairs.map(|(name, value)| (name.into(), value.into()));
        Self(owned.collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// How the server runs: standalone, sentinel or cluster. Valkey 8 and later have another name
    /// for it.
    fn mode(&self) -> Option<&str> {
        self.get("redis_mode").or_else(|| self.get("server_mode"))
    }

    /// A sentinel has no locks.
    pub(super) fn is_sentinel(&self) -> bool {
        self.mode() == Some("sentinel")
    }

    /// `in_cluster`: `--cluster` is given.
    pub(super) fn role(&self, in_cluster: bool) -> Finding {
        if self.is_sentinel() {
            let advice = "use --sentinel MASTER with the name under which it monitors the master";
            return Failure.advise("a sentinel: it has no locks", advice);
        }
        if self.mode() == Some("cluster") && !in_cluster {
            let found = "a server of a cluster: it has only the locks of its slots";
            return Failure.advise(found, "use --cluster");
        }
        match self.get("role") {
            None => unknown(),
            Some("master") => Ok.of("master"),
            Some(_) => {
                let part = |name| self.get(name).unwrap_or("?");
                let master = format!("{}:{}", part("master_host"), part("master_port"));
                let found = format!("a replica of {master}: it accepts no locks");
                let advice = format!(
                    "give the URL of its master, {master}; if the master can change, give the \
                     sentinels (--sentinel) or the cluster (--cluster)"
                );
                Failure.advise(found, advice)
            }
        }
    }

    pub(super) fn eviction(&self) -> Finding {
        let Some(policy) = self.get("maxmemory_policy") else {
            return unknown();
        };
        let (verdict, risk) = match (policy, self.get("maxmemory")) {
            ("noeviction", _) => return Ok.of("noeviction: no lock is evicted"),
            (_, Some("0")) => (Warning, ", but no maxmemory: once it is set, locks may be"),
            _ => (Failure, ": if memory is short, locks are"),
        };
        let found = format!("{policy}{risk} evicted while they are held");
        let advice = "set maxmemory-policy noeviction, or use a server for locks only";
        verdict.advise(found, advice)
    }
}

/// The finding of a check whose value INFO does not have.
fn unknown() -> Finding {
    Unknown.of("the user may not use INFO, which locks do not need, or INFO does not report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(info: &str, in_cluster: bool) -> Finding {
        Info::of(Some(info.into())).role(in_cluster)
    }

    #[test]
    fn a_replica_names_its_master() {
        assert_eq!(role("role:master\r\n", false).verdict, Ok);
        let replica = "role:slave\r\nmaster_host:db1\r\nmaster_port:7000\r\n";
        let found = role(replica, false);
        assert_eq!(found.verdict, Failure);
        assert!(found.advice.unwrap().contains("db1:7000"));
    }

    #[test]
    fn a_server_of_another_kind_is_a_failure() {
        // Of Redis, and of Valkey.
        for name in ["redis_mode", "server_mode"] {
            let of_a_cluster = format!("{name}:cluster\r\nrole:master\r\n");
            assert_eq!(role(&of_a_cluster, true).verdict, Ok);
            let advice = role(&of_a_cluster, false).advice;
            assert_eq!(advice.unwrap(), "use --cluster");
            let sentinel = role(&format!("{name}:sentinel\r\n"), false);
            assert!(sentinel.advice.unwrap().contains("--sentinel MASTER"));
        }
    }

    #[test]
    fn a_missing_value_is_unknown() {
        let none = Info::of(None);
        assert_eq!(none.role(false).verdict, Unknown);
        assert_eq!(none.eviction().verdict, Unknown);
    }
}
