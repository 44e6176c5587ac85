//! The role of the server: master or replica, its replicas, its cluster.

use super::facts::Facts;
use super::finding::Finding;

/// Replicas report once a second. One that did not report for more seconds than this is behind.
const LONG_LAG: u64 = 10;

/// A sentinel has no locks.
pub(super) fn is_sentinel(info: &Facts) -> bool {
    mode(info) == Some("sentinel")
}

/// How the server runs: standalone, sentinel or cluster. Valkey 8 and later have another name for
/// it.
fn mode(info: &Facts) -> Option<&str> {
    info.get("redis_mode").or_else(|| info.get("server_mode"))
}

/// `in_cluster`: `--cluster` is given.
pub(super) fn role(info: &Facts, in_cluster: bool) -> Finding {
    const CHECK: &str = "role";
    if is_sentinel(info) {
        let advice = "use --sentinel MASTER with the name under which it monitors the master";
        return Finding::failure(CHECK, "a sentinel: it has no locks", advice);
    }
    if !in_cluster && mode(info) == Some("cluster") {
        let found = "a server of a cluster: it has only the locks of its slots";
        return Finding::failure(CHECK, found, "use --cluster");
    }
    match info.get("role") {
        Some("master") => Finding::ok(CHECK, "master"),
        Some(_) => {
            let host = info.get("master_host").unwrap_or("?");
            let port = info.get("master_port").unwrap_or("?");
            Finding::failure(
                CHECK,
                format!("a replica of {host}:{port}: it accepts no locks"),
                format!(
                    "give the URL of its master, {host}:{port}; if the master can change, give the \
                     sentinels (--sentinel) or the cluster (--cluster)"
                ),
            )
        }
        None => Finding::unknown(CHECK, info.why_not()),
    }
}

/// `wanted`: how many replicas must confirm a lock.
pub(super) fn replicas(info: &Facts, wanted: Option<u32>) -> Finding {
    const CHECK: &str = "replicas";
    let Some(connected) = info.number("connected_slaves") else {
        return Finding::unknown(CHECK, info.why_not());
    };
    let lines = (0..connected).filter_map(|number| info.get(&format!("slave{number}")));
    let (mut online, mut behind) = (0, Vec::new());
    for line in lines {
        let part = |name| {
            line.split(',')
                .find_map(|part| part.split_once('=').filter(|(n, _)| *n == name))
        };
        let part = |name| part(name).map_or("?", |(_, value)| value);
        let address = format!("{}:{}", part("ip"), part("port"));
        let lag: Option<u64> = part("lag").parse().ok();
        match (part("state"), lag) {
            ("online", Some(lag)) if lag > LONG_LAG => {
                behind.push(format!("{address} last reported {lag} s ago"));
            }
            ("online", _) => online += 1,
            (state, _) => behind.push(format!("{address} is not online ({state})")),
        }
    }
    let mut found = format!("{online} online");
    for one in &behind {
        found.push_str(", ");
        found.push_str(one);
    }
    let wanted = wanted.unwrap_or(0);
    if online < wanted {
        return Finding::failure(
            CHECK,
            format!("{found}, but --min-replicas requires {wanted}: no lock can be acquired"),
            "check the replicas and the network between, or require fewer",
        );
    }
    if !behind.is_empty() {
        let advice =
            "check these replicas and the network between: a failover to one of them loses locks";
        return Finding::warning(CHECK, found, advice);
    }
    if connected == 0 {
        return Finding::note(CHECK, "none: a failover is not possible");
    }
    Finding::ok(CHECK, found)
}

/// `info`: the reply to CLUSTER INFO.
pub(super) fn cluster(info: &Facts) -> Finding {
    const CHECK: &str = "cluster";
    let Some(state) = info.get("cluster_state") else {
        return Finding::unknown(CHECK, info.why_not());
    };
    let count = |name| info.number(name).unwrap_or(0);
    let (failed, suspected) = (count("cluster_slots_fail"), count("cluster_slots_pfail"));
    let assigned = count("cluster_slots_assigned");
    let found = format!("cluster_state is {state}, {assigned} slots assigned");
    if state != "ok" || failed > 0 {
        let advice =
            "look at CLUSTER NODES: start the missing servers, or assign their slots to others";
        let found = format!("{found}, {failed} of servers that failed");
        return Finding::failure(CHECK, found, advice);
    }
    if suspected > 0 {
        let found = format!("{found}, {suspected} of servers that do not reply now");
        return Finding::warning(
            CHECK,
            found,
            "look at CLUSTER NODES, and at the network between",
        );
    }
    Finding::ok(CHECK, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::tests::{facts, refused};
    use crate::doctor::finding::Verdict::{Failure, Note, Ok, Unknown, Warning};

    #[test]
    fn a_replica_names_its_master() {
        assert_eq!(role(&facts("role:master\r\n"), false).verdict, Ok);
        let replica = facts("role:slave\r\nmaster_host:db1\r\nmaster_port:7000\r\n");
        let found = role(&replica, false);
        assert_eq!(found.verdict, Failure);
        assert!(found.advice.unwrap().contains("db1:7000"));
    }

    #[test]
    fn a_server_of_another_kind_is_a_failure() {
        // Of Redis, and of Valkey.
        for name in ["redis_mode", "server_mode"] {
            let of_a_cluster = facts(&format!("{name}:cluster\r\nrole:master\r\n"));
            assert_eq!(role(&of_a_cluster, true).verdict, Ok);
            assert_eq!(role(&of_a_cluster, false).advice.unwrap(), "use --cluster");
            let sentinel = role(&facts(&format!("{name}:sentinel\r\n")), false);
            assert!(sentinel.advice.unwrap().contains("--sentinel MASTER"));
        }
    }

    #[test]
    fn replicas_that_can_confirm_are_counted() {
        const ONLINE: &str = "ip=h,port=1,state=online,offset=7,lag=1";
        const LATE: &str = "ip=h,port=2,state=online,offset=7,lag=11";
        const SYNCING: &str = "ip=h,port=3,state=wait_bgsave,offset=0,lag=0";
        for (replicas, wanted, verdict) in [
            (&[][..], None, Note),
            (&[], Some(1), Failure),
            (&[ONLINE], None, Ok),
            (&[ONLINE], Some(1), Ok),
            (&[ONLINE], Some(2), Failure),
            (&[ONLINE, LATE], None, Warning),
            (&[ONLINE, LATE], Some(2), Failure),
            (&[ONLINE, SYNCING], Some(1), Warning),
        ] {
            let mut text = format!("connected_slaves:{}\r\n", replicas.len());
            for (number, line) in replicas.iter().enumerate() {
                text.push_str(&format!("slave{number}:{line}\r\n"));
            }
            let found = super::replicas(&facts(&text), wanted);
            assert_eq!(found.verdict, verdict, "{replicas:?} {wanted:?}: {found:?}");
        }
    }

    #[test]
    fn the_state_of_a_cluster_is_reported() {
        let well = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_fail:0\r\n";
        assert_eq!(cluster(&facts(well)).verdict, Ok);
        assert_eq!(cluster(&facts("cluster_state:fail\r\n")).verdict, Failure);
        let limping = "cluster_state:ok\r\ncluster_slots_fail:5461\r\n";
        assert_eq!(cluster(&facts(limping)).verdict, Failure);
        let suspecting = "cluster_state:ok\r\ncluster_slots_pfail:5461\r\n";
        assert_eq!(cluster(&facts(suspecting)).verdict, Warning);
    }

    #[test]
    fn a_missing_value_is_unknown() {
        let none = refused();
        for finding in [role(&none, false), replicas(&none, None), cluster(&none)] {
            assert_eq!(finding.verdict, Unknown, "{finding:?}");
        }
    }
}
