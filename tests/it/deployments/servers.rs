//! The other deployments themselves: replicas without sentinels, and independent servers.

use redis::Cmd;

use super::{get, set};
use crate::support::deployment::{Independent, Replicated};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, Millis, SOON};

/// The number of replicas that confirm a write within `timeout`.
fn confirmed(master: &Server, wanted: usize, timeout: Millis) -> usize {
    let mut connection = master.connection();
    set("key").exec(&mut connection).expect("a master");
    let timeout = u64::try_from(timeout.get().as_millis()).expect("a short timeout");
    let wait = redis::cmd("WAIT").arg(wanted).arg(timeout).clone();
    wait.query(&mut connection).expect("a number")
}

#[test]
fn a_paused_replica_confirms_nothing() {
    let replicated = Replicated::start(2);
    assert_eq!(replicated.url(), replicated.master().url());
    let timeout = Millis(SOON.0 / 2);
    assert_eq!(confirmed(replicated.master(), 2, timeout), 2);
    assert!(replicated.replica(0).try_ask::<()>(&set("key")).is_none());
    replicated.pause_replica(0);
    assert_eq!(confirmed(replicated.master(), 2, A_WHILE), 1);
    replicated.resume_replica(0);
    assert_eq!(confirmed(replicated.master(), 2, timeout), 2);
}

#[test]
fn independent_servers_have_keys_lives_and_pauses_of_their_own() {
    let servers = Independent::start(5);
    assert_eq!(servers.urls().len(), 5);
    servers.server(0).ask::<()>(&set("key"));
    let has = |index: usize| {
        let value: Option<String> = servers.server(index).ask(&get("key"));
        value.is_some()
    };
    assert_eq!((0..5).map(has).filter(|has| *has).count(), 1);
    servers.kill(1);
    servers.pause(2);
    let ping: Cmd = redis::cmd("PING");
    assert!(servers.server(1).try_ask::<()>(&ping).is_none());
    assert!((3..5).all(|index| servers.server(index).try_ask::<()>(&ping).is_some()));
    assert!(has(0));
    servers.resume(2);
    servers.start_again(1);
    assert!((0..5).all(|index| servers.server(index).try_ask::<()>(&ping).is_some()));
}
