//! What a server is: version, role, connections. A check returns `None` if the server does not
//! report it.

use super::facts::Facts;
use super::finding::Finding;
use super::finding::Verdict::{Failure, Note, Ok, Unknown, Warning};

/// The client opens a connection again that was idle for this many seconds, so a longer `timeout`
/// closes none.
const IDLE: u64 = 60;

/// Replicas report once a second. One that did not report for more seconds than this is behind.
const LONG_LAG: u64 = 10;

pub(super) fn version(info: &Facts) -> Option<Finding> {
    let version = info.get("redis_version")?;
    let mut parts = version.split('.').map(str::parse);
    let (Some(Result::Ok(major)), Some(Result::Ok(minor))) = (parts.next(), parts.next()) else {
        return Some(Unknown.of(format!("{version} is not a version of Redis")));
    };
    // Valkey reports the version of Redis with which it is compatible, and beside it its own.
    let found = match info.get("valkey_version") {
        Some(own) => format!("Valkey {own}"),
        None => format!("Redis {version}"),
    };
    let too_old = "update it: leasehold needs Redis 5 or later, better 6.2";
    let old = "update it to 6.2 or later: older versions are not maintained, and have no \
               permissions for channels";
    let trouble = match (major, minor) {
        (..5, _) => Some((Failure, too_old)),
        (5, _) | (6, ..2) => Some((Warning, old)),
        _ => None,
    };
    Some(Finding::of(found, trouble))
}

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
pub(super) fn role(info: &Facts, in_cluster: bool) -> Option<Finding> {
    match mode(info) {
        Some("sentinel") => {
            let advice = "use --sentinel MASTER with the name under which it monitors the master";
            return Some(Failure.advise("a sentinel: it has no locks", advice));
        }
        Some("cluster") if !in_cluster => {
            let found = "a server of a cluster: it has only the locks of its slots";
            return Some(Failure.advise(found, "use --cluster"));
        }
        _ => {}
    }
    if info.get("role")? == "master" {
        return Some(Ok.of("master"));
    }
    let part = |name| info.get(name).unwrap_or("?");
    let master = format!("{}:{}", part("master_host"), part("master_port"));
    let found = format!("a replica of {master}: it accepts no locks");
    let advice = format!(
        "give the URL of its master, {master}; if the master can change, give the sentinels \
         (--sentinel) or the cluster (--cluster)"
    );
    Some(Failure.advise(found, advice))
}

/// `wanted`: how many replicas must confirm a lock.
pub(super) fn replicas(info: &Facts, wanted: Option<u32>) -> Option<Finding> {
    let connected = info.number("connected_slaves")?;
    let (mut online, mut behind) = (0, String::new());
    for line in (0..connected).filter_map(|number| info.get(&format!("slave{number}"))) {
        let part = |name| {
            let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|pair| pair.0 == name);
            found.map_or("?", |pair| pair.1)
        };
        let address = format!("{}:{}", part("ip"), part("port"));
        match (part("state"), part("lag").parse::<u64>()) {
            ("online", Result::Ok(lag)) if lag > LONG_LAG => {
                behind += &format!(", {address} last reported {lag} s ago");
            }
            ("online", _) => online += 1,
            (state, _) => behind += &format!(", {address} is not online ({state})"),
        }
    }
    let found = format!("{online} online{behind}");
    Some(match wanted {
        Some(wanted) if online < wanted => Failure.advise(
            format!("{found}, but --min-replicas requires {wanted}: no lock can be acquired"),
            "check the replicas and the network between, or require fewer",
        ),
        _ if !behind.is_empty() => Warning.advise(
            found,
            "check these replicas and the network between: a failover to one of them loses locks",
        ),
        _ if connected == 0 => Note.of("none: a failover is not possible"),
        _ => Ok.of(found),
    })
}

/// `info`: the reply to CLUSTER INFO.
pub(super) fn cluster(info: &Facts) -> Option<Finding> {
    let state = info.get("cluster_state")?;
    let count = |name| info.number(name).unwrap_or(0);
    let assigned = count("cluster_slots_assigned");
    let found = format!("cluster_state is {state}, {assigned} slots assigned");
    Some(
        match (count("cluster_slots_fail"), count("cluster_slots_pfail")) {
            (0, 0) if state == "ok" => Ok.of(found),
            (0, suspected) if state == "ok" => Warning.advise(
                format!("{found}, {suspected} of servers that do not reply now"),
                "look at CLUSTER NODES, and at the network between",
            ),
            (failed, _) => Failure.advise(
                format!("{found}, {failed} of servers that failed"),
                "look at CLUSTER NODES: start the missing servers, or assign their slots to others",
            ),
        },
    )
}

pub(super) fn clients(info: &Facts) -> Option<Finding> {
    let connected = info.number("connected_clients")?;
    let limit = info.number("maxclients")?;
    let found = format!("{connected} connected of at most {limit}");
    let percent = connected.saturating_mul(100).checked_div(limit)?;
    let advice = "raise maxclients, or find the clients with too many connections: at the limit the \
                  server accepts no client";
    Some(Finding::of_use(found, percent, advice))
}

/// `settings`: `timeout`.
pub(super) fn idle(settings: &Facts) -> Option<Finding> {
    let seconds = settings.number("timeout")?;
    let found = format!("idle connections are closed after {seconds} s");
    let again = "a call may have to connect again, which takes a moment";
    Some(match seconds {
        0 => Ok.of("idle connections are kept"),
        1..IDLE => Note.of(format!("{found}: {again}")),
        _ => Ok.of(found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::tests::{facts, refused};

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
            let found = version(&facts(&format!("redis_version:{number}\r\n"))).unwrap();
            assert_eq!(found.verdict, verdict, "{number}");
        }
    }

    /// The values of Valkey 7.2.5 and 9.1, and of Redis 8.2.
    #[test]
    fn valkey_has_its_own_name_and_version() {
        let told = |info: &str| version(&facts(info)).unwrap();
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
    fn a_replica_names_its_master() {
        assert_eq!(role(&facts("role:master\r\n"), false).unwrap().verdict, Ok);
        let replica = facts("role:slave\r\nmaster_host:db1\r\nmaster_port:7000\r\n");
        let found = role(&replica, false).unwrap();
        assert_eq!(found.verdict, Failure);
        assert!(found.advice.unwrap().contains("db1:7000"));
    }

    #[test]
    fn a_server_of_another_kind_is_a_failure() {
        // Of Redis, and of Valkey.
        for name in ["redis_mode", "server_mode"] {
            let of_a_cluster = facts(&format!("{name}:cluster\r\nrole:master\r\n"));
            assert_eq!(role(&of_a_cluster, true).unwrap().verdict, Ok);
            assert_eq!(
                role(&of_a_cluster, false).unwrap().advice.unwrap(),
                "use --cluster"
            );
            let sentinel = role(&facts(&format!("{name}:sentinel\r\n")), false).unwrap();
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
            let found = super::replicas(&facts(&text), wanted).unwrap();
            assert_eq!(found.verdict, verdict, "{replicas:?} {wanted:?}: {found:?}");
        }
    }

    #[test]
    fn the_state_of_a_cluster_is_reported() {
        let well = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_fail:0\r\n";
        assert_eq!(cluster(&facts(well)).unwrap().verdict, Ok);
        assert_eq!(
            cluster(&facts("cluster_state:fail\r\n")).unwrap().verdict,
            Failure
        );
        let limping = "cluster_state:ok\r\ncluster_slots_fail:5461\r\n";
        assert_eq!(cluster(&facts(limping)).unwrap().verdict, Failure);
        let suspecting = "cluster_state:ok\r\ncluster_slots_pfail:5461\r\n";
        assert_eq!(cluster(&facts(suspecting)).unwrap().verdict, Warning);
    }

    #[test]
    fn many_clients_are_a_warning() {
        for (connected, verdict) in [(1, Ok), (89, Ok), (90, Warning), (100, Warning)] {
            let info = facts(&format!(
                "connected_clients:{connected}\r\nmaxclients:100\r\n"
            ));
            assert_eq!(clients(&info).unwrap().verdict, verdict, "{connected}");
        }
    }

    #[test]
    fn a_short_timeout_is_a_note() {
        for (seconds, verdict) in [(0, Ok), (1, Note), (59, Note), (60, Ok)] {
            let found = idle(&facts(&format!("timeout:{seconds}\r\n"))).unwrap();
            assert_eq!(found.verdict, verdict, "{seconds}");
        }
    }

    #[test]
    fn a_missing_value_is_unknown() {
        let none = refused();
        for finding in [
            version(&none),
            role(&none, false),
            replicas(&none, None),
            cluster(&none),
            clients(&none),
            idle(&none),
        ] {
            assert_eq!(finding, None);
        }
    }
}
