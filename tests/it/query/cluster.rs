//! Queries in a cluster: their keys are in the slot of the lock.

use redis::Pipeline;

use super::add_one;
use crate::support::prelude::*;

fn pipeline(commands: &[&[&str]]) -> Pipeline {
    let mut pipeline = redis::pipe();
    for words in commands {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        pipeline.add_command(command).ignore();
    }
    pipeline
}

fn client(cluster: &ClusterDeployment) -> LockClient {
    let builder = LockClient::builder_cluster(cluster.urls());
    builder.watchdog_lease(SOON.get()).build().unwrap()
}

#[test]
fn a_key_of_another_slot_is_refused_by_its_name() {
    let cluster = ClusterDeployment::shared();
    let name = unique("query");
    let guard = client(&cluster).reentrant_lock(&name).acquire().unwrap();
    let own = format!("{{{name}}}:own");
    let other = unique("other");
    assert_ne!(cluster.slot_of(&own), cluster.slot_of(&other));
    let refused: [&[&str]; 8] = [
        &["set", &other, &own],
        &["MSET", &own, "1", &other, "2"],
        &["DEL", &own, &own, &other],
        &["ZUNIONSTORE", &own, "2", &own, &other],
        &["ZUNIONSTORE", &other, "2", &own, &own],
        &["SORT", &own, "STORE", &other],
        &["OBJECT", "ENCODING", &other],
        &["XGROUP", "CREATE", &other, "group", "0"],
    ];
    for words in refused {
        let result = guard.query::<()>(&pipeline(&[&["SET", &own, "1"], words]));
        let Err(Error::InvalidArgument { value, rule, .. }) = &result else {
            panic!("{words:?}: {result:?}");
        };
        assert_eq!(&**value, format!("{other:?}"), "{words:?}");
        assert!(rule.contains(&format!("{{{name}}}")), "{rule}");
    }
    let server = cluster.primary_of(cluster.slot_of(&own));
    assert!(!server.has(&own), "nothing was executed");
    guard
        .query::<()>(&pipeline(&[
            &["SET", &own, &other],
            &["MSET", &own, &other, &own, "2"],
            &["ZUNIONSTORE", &own, "1", &own, "WEIGHTS", "2"],
            &["OBJECT", "ENCODING", &own],
            &["PUBLISH", &other, &other],
            &["PING", &other],
        ]))
        .map_err(|error| assert_matches!(error, Error::Query { executed: true, .. }))
        .unwrap_err();
    assert!(server.has(&own));
}

#[test]
fn a_server_is_asked_once_where_the_keys_of_a_command_are() {
    let cluster = ClusterDeployment::shared();
    let name = unique("query");
    let guard = client(&cluster).reentrant_lock(&name).acquire().unwrap();
    let [own, too, set] = ["own", "too", "set"].map(|end| format!("{{{name}}}:{end}"));
    let server = cluster.primary_of(cluster.slot_of(&name));
    // Other tests use other commands.
    let asked = |pipeline: &Pipeline| {
        let mut monitor = Monitor::of(server);
        guard.query::<()>(pipeline).unwrap();
        let mut lines = monitor.lines();
        lines.retain(|line| line.contains("\"COMMAND\""));
        lines.retain(|line| {
            ["GETSET", "ZINTERSTORE"]
                .iter()
                .any(|name| line.contains(name))
        });
        lines.len()
    };
    let fixed = pipeline(&[
        &["GETSET", &own, "1"],
        &["APPEND", &too, "1"],
        &["getset", &own, "2"],
    ]);
    let varied = pipeline(&[&["ZINTERSTORE", &set, "1", &set]]);
    assert_eq!((asked(&fixed), asked(&fixed)), (1, 0));
    assert_eq!((asked(&varied), asked(&varied)), (2, 1));
}

/// A server is asked for the keys of commands that have subcommands.
#[test]
fn a_command_without_keys_is_executed() {
    let cluster = ClusterDeployment::shared();
    let name = unique("query");
    let guard = client(&cluster).reentrant_lock(&name).acquire().unwrap();
    let mut all = pipeline(&[&["SET", &format!("{{{name}}}:own"), "1"]]);
    all.cmd("PUBSUB").arg("NUMSUB").arg(&name);
    all.cmd("COMMAND").arg("COUNT");
    let (listeners, commands): ((String, u64), u64) = guard.query(&all).unwrap();
    assert_eq!((listeners, commands > 100), ((name, 0), true));
}

#[test]
fn several_names_need_one_slot() {
    let cluster = ClusterDeployment::shared();
    let client = client(&cluster);
    let tag = unique("query");
    let names = ["a", "b"].map(|end| format!("{{{tag}}}:{end}"));
    let guard = client.multi_lock(&names).acquire().unwrap();
    let key = format!("{{{tag}}}:number");
    guard.query::<()>(&add_one(&key)).unwrap();
    let names: Vec<String> = (0..4).map(|_| unique("query")).collect();
    let guard = client.multi_lock(&names).acquire().unwrap();
    let refused = guard.query::<()>(&add_one(&key));
    assert_matches!(refused, Err(Error::Config { .. }));
}

/// All keys of the query are declared, so the cluster refuses it as a whole.
#[test]
fn while_a_slot_moves_all_commands_are_executed_or_none() {
    let cluster = ClusterDeployment::start();
    let name = unique("query");
    let builder = LockClient::builder_cluster(cluster.urls());
    let client = builder
        .watchdog_lease(SOON.get())
        .command_timeout(SLIP.get())
        .build()
        .unwrap();
    let guard = client.reentrant_lock(&name).acquire_with(long()).unwrap();
    let [own, too] = ["own", "too"].map(|end| format!("{{{name}}}:{end}"));
    let set = pipeline(&[&["SET", &own, "1"], &["SET", &too, "1"]]);
    guard.query::<()>(&set).unwrap();
    let slot = cluster.slot_of(&name);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    migration.move_these(&[&own]);
    let set = pipeline(&[&["SET", &too, "2"], &["SET", &own, "2"]]);
    let moving = guard.query::<()>(&set);
    assert!(is_unavailable(&moving), "{moving:?}");
    let too_is = |server: &Server| -> String { server.ask(redis::cmd("GET").arg(&too)) };
    assert_eq!(too_is(cluster.primary_of(slot)), "1");
    migration.move_keys();
    migration.end();
    guard.query::<()>(&set).unwrap();
    assert_eq!(too_is(cluster.primary_of(slot)), "2");
}
