//! The Sentinel deployment itself: a master, its replicas and their sentinels.

use super::{get, set};
use crate::support::deployment::SentinelDeployment;
use crate::support::timing::eventually;

#[test]
#[ignore = "soak"]
fn a_killed_master_is_replaced_and_follows_the_new_one_when_it_is_back() {
    let deployment = SentinelDeployment::start();
    let old = deployment.kill_master();
    let new = deployment.await_new_master(old);
    assert_ne!(new.port(), old.port());
    new.ask::<()>(&set("key"));

    deployment.start_killed_again();
    assert_eq!(deployment.master().port(), new.port());
    assert!(old.try_ask::<()>(&set("key")).is_none(), "a replica");
    eventually("the old master to have what the new one has", || {
        old.ask::<Option<String>>(&get("key")).is_some()
    });
}

#[test]
#[ignore = "soak"]
fn a_paused_master_is_replaced_and_demoted_when_it_goes_on() {
    let deployment = SentinelDeployment::start_with_password("secret");
    let old = deployment.pause_master();
    let new = deployment.await_new_master(old);
    new.ask::<()>(&set("key"));
    old.resume();
    deployment.await_calm();
    assert_eq!(deployment.master().port(), new.port());
    assert!(old.try_ask::<()>(&set("key")).is_none(), "a replica");
}

#[test]
#[ignore = "soak"]
fn an_operator_fails_over_twice() {
    let deployment = SentinelDeployment::start();
    let first = deployment.master();
    first.ask::<()>(&set("key"));
    let second = deployment.fail_over();
    assert_ne!(second.port(), first.port());
    assert_eq!(deployment.fail_over().port(), deployment.master().port());
    let value: Option<String> = deployment.master().ask(&get("key"));
    assert_eq!(value.as_deref(), Some("value"));
}

#[test]
fn the_shared_deployment_is_healthy_and_exists_once() {
    let one = SentinelDeployment::shared();
    let other = SentinelDeployment::shared();
    assert_eq!(one.sentinel_urls(), other.sentinel_urls());
    assert_eq!(one.sentinels().len(), 3);
    assert_eq!(one.servers().len(), 3);
    assert_eq!(one.master_name(), "mymaster");
    one.await_calm();
}
