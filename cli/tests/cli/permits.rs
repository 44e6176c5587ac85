//! The permits of semaphores: `leasehold permits`, `leasehold break KEY PERMIT`, and `--kind
//! permits=N` of `run`.

use leasehold::LeasedSemaphore;

use crate::locks::{
    Place, ask, client, client_of, names_at, object, send, text, with_long_timeout,
};
use crate::program::Output;
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::support::unique;

/// A semaphore with this number of permits.
fn semaphore(server: &Server, permits: u32) -> LeasedSemaphore {
    let semaphore = client(server).leased_semaphore("api");
    semaphore.set_permits(permits).unwrap();
    semaphore
}

#[track_caller]
fn expect_permits(output: Output, permits: &str, available: i64, leased: i64) {
    let expected = format!(
        "name       api\npermits    {permits}\navailable  {available}\nleased     {leased}\n"
    );
    assert_eq!(output.expect(0).text(), expected);
}

#[test]
fn a_number_that_has_no_effect_is_a_warning_with_the_command_that_sets_it() {
    let server = Server::start();
    let run = |permits: u32| {
        let words = format!("run --quiet --kind permits={permits} api -- true");
        ask(&server, &words)
    };
    for _ in 0..2 {
        run(3).expect_all(0, "", "");
    }
    let words = ["api has 3 permits, not 5", "leasehold permits api 5"];
    run(5).expect_failure(0, &words);
    ask(&server, "permits api 5").expect(0);
    run(5).expect_all(0, "", "");
}

#[test]
fn the_permits_are_shown_and_set() {
    let server = Server::start();
    let ask = |words: &str| ask(&server, words);
    ask("permits api").expect_failure(1, &["no semaphore api", &server.address()]);
    expect_permits(ask("permits api 3"), "3 (before: 0)", 3, 0);
    let semaphore = client(&server).leased_semaphore("api");
    let _held = [semaphore.acquire().unwrap(), semaphore.acquire().unwrap()];
    expect_permits(ask("permits api"), "3", 1, 2);
    expect_permits(ask("permits api 1"), "1 (before: 3)", -1, 2);

    let quoted = with_long_timeout(&server).args(["permits", "$'two words'", "2"]);
    quoted.output().expect(0);
    let quoted = client(&server).leased_semaphore("two words");
    assert_eq!(quoted.permits().unwrap(), 2);

    client(&server).reentrant_lock("lock").lock().unwrap();
    for words in ["permits lock", "permits lock 3"] {
        ask(words).expect_failure(64, &["lock is a lock"]);
    }
    let urls = [1, 2, 3].map(|port| format!("redis://127.0.0.1:{port}"));
    let redlock = crate::locks::ask(&urls.to_vec(), "--redlock permits api");
    redlock.expect_failure(64, &["--redlock"]);
}

/// Only the number is left, which shows neither how many permits there were nor how many are lost.
#[test]
fn a_semaphore_that_lost_its_leases_is_listed_and_repaired() {
    let server = Server::start();
    let semaphore = semaphore(&server, 2);
    let held = [semaphore.acquire().unwrap(), semaphore.acquire().unwrap()];
    assert_eq!(names_at(&server, "list"), ["api"]);
    send(&server, "DEL {api}:timeout");
    assert_eq!(names_at(&server, "list --all"), ["api"]);
    expect_permits(ask(&server, "permits api 2"), "2 (before: 0)", 2, 0);
    assert!(semaphore.try_acquire_now().unwrap().is_some());
    drop(held);
    expect_permits(ask(&server, "permits api"), "2", 2, 0);
}

/// Breaks the only permit of a semaphore while a thread waits for it.
fn break_it(urls: &Vec<String>, options: &str, name: &str, waiter: LeasedSemaphore) {
    let words = |command: &str| format!("{options}{command} {name}");
    let hold = words("hold --lease 5m --kind permits=1");
    let holder = with_long_timeout(urls).args(hold.split(' ')).keep_input();
    let holder = holder.start();
    assert_eq!(holder.next_output(), format!("held {name}\n"));
    let show = || object(urls, &words("show"));
    let permit = show()["permits"][0]["id"].as_str().unwrap().to_owned();
    // Only a message ends the wait soon: the lease of the holder is longer.
    let waiting = std::thread::spawn(move || waiter.acquire().map(drop));
    eventually("a listener", || show()["listeners"] == 1);
    let freed = text(urls, &format!("{} {permit}", words("break -y")));
    let expected = format!("freed permit {permit} of {name} (time to live ");
    assert!(freed.starts_with(&expected), "{freed}");
    eventually("the permit", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
    holder.end().expect_failure(76, &["lost"]);
    let permits = text(urls, &words("permits"));
    assert!(permits.contains("permits    1\n"), "{permits}");
}

#[test]
fn break_ends_a_single_permit_also_in_a_cluster() {
    let server = Server::start();
    let waiter = client(&server).leased_semaphore("api");
    break_it(&vec![server.place()], "", "api", waiter);
    let cluster = ClusterDeployment::shared();
    let name = unique("permits");
    let waiter = client_of(&cluster).leased_semaphore(&name);
    break_it(&cluster.urls(), "--cluster ", &name, waiter);
}

#[test]
fn break_names_a_permit_that_is_leased() {
    let server = Server::start();
    let semaphore = semaphore(&server, 2);
    let none = "00000000000000000000000000000000";
    let absent = |key: &str, status, words: &[&str]| {
        let output = ask(&server, &format!("break -y {key} {none}"));
        output.expect_failure(status, words);
    };
    absent("api", 1, &["no leased permit", none]);
    let held = semaphore.acquire().unwrap();
    absent("api", 1, &["no leased permit", none, "leasehold show api"]);
    client(&server).reentrant_lock("lock").lock().unwrap();
    absent("lock", 64, &["lock is a lock"]);
    let invalid = ask(&server, "break -y api 1");
    invalid.expect_failure(64, &["32 hexadecimal digits"]);
    assert_eq!(object(&server, "show api")["count"], 1);
    held.release().unwrap();
}
