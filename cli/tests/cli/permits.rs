//! The permits of semaphores: `leasehold permits`, `leasehold break KEY PERMIT`, and `--kind
//! permits=N` of `run`.

use leasehold::LeasedSemaphore;
use serde_json::json;

use crate::locks::{client, names, objects, send, with_long_timeout};
use crate::program::{Output, Program};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::eventually;

fn ask(server: &Server, args: &[&str]) -> Output {
    with_long_timeout(&server.url()).args(args).output()
}

/// A semaphore with this number of permits.
fn semaphore(server: &Server, permits: u32) -> LeasedSemaphore {
    let semaphore = client(server).leased_semaphore("api");
    semaphore.set_permits(permits).unwrap();
    semaphore
}

#[track_caller]
fn assert_permits(output: Output, permits: &str, available: i64, leased: i64) {
    let text = output.expect(0).text();
    let expected = format!(
        "name       api\npermits    {permits}\navailable  {available}\nleased     {leased}\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn a_number_that_has_no_effect_is_a_warning_with_the_command_that_sets_it() {
    let server = Server::start();
    let run = |kind: &str| {
        let output = ask(
            &server,
            &["run", "--quiet", "--kind", kind, "api", "--", "true"],
        );
        output.expect(0).err
    };
    assert_eq!(run("permits=3"), "");
    assert_eq!(run("permits=3"), "");
    let warning = run("permits=5");
    assert_eq!(warning.lines().count(), 1, "{warning}");
    for words in ["api has 3 permits, not 5", "leasehold permits api 5"] {
        assert!(warning.contains(words), "{warning}");
    }
    ask(&server, &["permits", "api", "5"]).expect(0);
    assert_eq!(run("permits=5"), "");
}

#[test]
fn the_permits_are_shown_and_set() {
    let server = Server::start();
    let nothing = ask(&server, &["permits", "api"]);
    nothing.expect_failure(1, &["no semaphore api", &server.address()]);
    assert_permits(
        ask(&server, &["permits", "api", "3"]),
        "3 (before: 0)",
        3,
        0,
    );
    let semaphore = client(&server).leased_semaphore("api");
    let _held = [semaphore.acquire().unwrap(), semaphore.acquire().unwrap()];
    assert_permits(ask(&server, &["permits", "api"]), "3", 1, 2);
    assert_permits(
        ask(&server, &["permits", "api", "1"]),
        "1 (before: 3)",
        -1,
        2,
    );

    ask(&server, &["permits", "$'two words'", "2"]).expect(0);
    let quoted = client(&server).leased_semaphore("two words");
    assert_eq!(quoted.permits().unwrap(), 2);
    ask(&server, &["permits", r"$'caf\xe9'"]).expect_failure(64, &[r"$'caf\xe9' is not UTF-8"]);

    client(&server).reentrant_lock("lock").lock().unwrap();
    for number in [&["permits", "lock"][..], &["permits", "lock", "3"]] {
        ask(&server, number).expect_failure(64, &["lock is a lock"]);
    }
    let redlock = ["--redlock", "permits", "api"];
    let urls = [
        "redis://127.0.0.1:1",
        "redis://127.0.0.1:2",
        "redis://127.0.0.1:3",
    ];
    let redlock = with_long_timeout(&urls.join(",")).args(redlock).output();
    redlock.expect_failure(64, &["--redlock"]);
}

/// Only the number is left, which shows neither how many permits there were nor how many are lost.
#[test]
fn a_semaphore_that_lost_its_leases_is_listed_and_repaired() {
    let server = Server::start();
    let semaphore = semaphore(&server, 2);
    let held = [semaphore.acquire().unwrap(), semaphore.acquire().unwrap()];
    let list = |args: &[&str]| names(&ask(&server, args).expect(0));
    assert_eq!(list(&["list", "--json"]), ["api"]);
    send(&server, &["DEL {api}:timeout"]);
    assert_eq!(list(&["list", "--all", "--json"]), ["api"]);
    for command in ["show", "permits"] {
        let output = ask(&server, &[command, "api"]).expect(0);
        assert!(output.err.contains("leasehold permits api N"), "{output:?}");
    }
    assert_permits(
        ask(&server, &["permits", "api", "2"]),
        "2 (before: 0)",
        2,
        0,
    );
    assert!(semaphore.try_acquire_now().unwrap().is_some());
    drop(held);
    assert_permits(ask(&server, &["permits", "api"]), "2", 2, 0);
}

/// Breaks the only permit of a semaphore while a thread waits for it.
fn break_it(program: &dyn Fn() -> Program, name: &str, waiter: LeasedSemaphore) {
    let hold = ["hold", "--lease", "5m", "--kind", "permits=1", name];
    let holder = program().args(hold).keep_input().start();
    assert_eq!(holder.next_output(), format!("held {name}\n"));
    let show = || {
        let output = program().args(["show", name, "--json"]).output();
        objects(&output.expect(0)).remove(0)
    };
    let permit = show()["permits"][0]["id"].as_str().unwrap().to_owned();
    // Only a message ends the wait soon: the lease of the holder is longer.
    let waiting = std::thread::spawn(move || waiter.acquire().map(drop));
    eventually("a listener", || show()["listeners"] == 1);
    let output = program().args(["break", "-y", name, &permit]).output();
    let freed = format!("freed permit {permit} of {name} (time to live ");
    assert!(output.expect(0).text().starts_with(&freed));
    eventually("the permit", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
    holder.end().expect_failure(76, &["lost"]);
    let permits = program().args(["permits", name]).output().expect(0);
    assert!(permits.text().contains("permits    1\n"), "{permits:?}");
}

#[test]
fn break_ends_a_single_permit_also_in_a_cluster() {
    let server = Server::start();
    let program = || with_long_timeout(&server.url());
    break_it(&program, "api", client(&server).leased_semaphore("api"));

    let cluster = ClusterDeployment::shared();
    let name = crate::support::unique("permits");
    let urls = cluster.urls();
    let program = || with_long_timeout(&urls.join(",")).arg("--cluster");
    let client = leasehold::LockClient::builder_cluster(&urls).build();
    let waiter = client.unwrap().leased_semaphore(&name);
    break_it(&program, &name, waiter);
}

#[test]
fn break_names_a_permit_that_is_leased() {
    let server = Server::start();
    let semaphore = semaphore(&server, 2);
    let none = "00000000000000000000000000000000";
    let absent = |key: &str, status, words: &[&str]| {
        let output = ask(&server, &["break", "-y", key, none]);
        output.expect_failure(status, words);
    };
    absent("api", 1, &["no leased permit", none]);
    let held = semaphore.acquire().unwrap();
    absent("api", 1, &["no leased permit", none, "leasehold show api"]);
    client(&server).reentrant_lock("lock").lock().unwrap();
    absent("lock", 64, &["lock is a lock"]);
    let invalid = ask(&server, &["break", "-y", "api", "1"]);
    invalid.expect_failure(64, &["32 hexadecimal digits"]);
    let shown = objects(&ask(&server, &["show", "api", "--json"])).remove(0);
    assert_eq!(shown["count"], json!(1));
    held.release().unwrap();
}
