//! Which user the program is: of the command line, of the URL, of the environment.

use crate::locks::{ask, exists, names, objects, plant, with_long_timeout, with_user};
use crate::program::leasehold;
use crate::support::server::Server;
use crate::support::timing::{LEASE, throughout};

/// A user who sees the locks of its own name.
fn add_user(server: &Server, user: &str, password: &str) {
    let rules = format!("resetpass >{password} +@all ~{user}:*");
    with_user(server, user, &rules);
    plant(server, format!("{user}:lock"));
}

#[test]
fn the_environment_completes_a_url_and_the_command_line_overrides_it() {
    let server = Server::start();
    add_user(&server, "ann", "hers");
    add_user(&server, "bob", "his");
    for (before, options, user, password, expected) in [
        ("ann@", &[][..], "", "hers", "ann"),
        ("ann:hers@", &[], "", "another", "ann"),
        ("ann:hers@", &[], "bob", "his", "ann"),
        ("ann:hers@", &[], "bob", "", "ann"),
        ("ann@", &[], "bob", "hers", "ann"),
        ("", &[], "bob", "his", "bob"),
        ("", &["--user", "bob"], "ann", "his", "bob"),
        ("ann@", &["--user", "bob"], "", "his", "bob"),
        ("ann:hers@", &["--user", "bob"], "", "his", "bob"),
        ("?user=ann&pass=hers", &[], "bob", "his", "ann"),
        ("?user=ann", &[], "bob", "hers", "ann"),
    ] {
        // Before the host, or after it.
        let url = match before.split_once('?') {
            Some((_, query)) => format!("redis://{}?{query}", server.address()),
            None => format!("redis://{before}{}", server.address()),
        };
        let listed = with_long_timeout(&url)
            .env("LEASEHOLD_USER", user)
            .env("LEASEHOLD_PASSWORD", password)
            .args(["list", "--json"])
            .args(options)
            .output();
        let what = format!("{before} {options:?} {user} {password}: {listed:?}");
        assert_eq!(listed.code(), Some(0), "{what}");
        let found = names(&objects(&listed));
        assert_eq!(found, [format!("{expected}:lock")], "{what}");
    }
}

#[test]
fn a_user_without_a_password_is_reported() {
    let server = Server::start();
    for login in ["", "ann@", "ann:hers@"] {
        let url = format!("redis://{login}{}", server.address());
        let words = ["--user", "LEASEHOLD_PASSWORD"];
        ask(&url, "list --user bob").expect_failure(64, &words);
    }
}

/// The library names its own settings for this; the command names its options.
#[test]
fn a_wrong_password_is_reported_with_the_options_of_the_command_and_not_shown() {
    let server = Server::options().password("right").start();
    for login in ["", ":sesame@", "unknown:sesame@"] {
        let url = format!("redis://{login}{}", server.address());
        for words in ["list", "show k", "run --no-wait k -- true"] {
            let words_of_error = ["refused", "--user", "LEASEHOLD_PASSWORD"];
            let output = ask(&url, words).expect_refusal(69, &words_of_error);
            for word in ["LockClient", "provider", "sesame"] {
                assert!(!output.err.contains(word), "{output:?}");
            }
        }
    }
}

#[test]
fn a_missing_permission_is_reported_with_its_rule() {
    let server = Server::start();
    let url = with_user(&server, "ann", "+@all ~ann:* -scan -evalsha");
    for (words, right) in [
        ("list", "+scan"),
        ("run --no-wait ann:l -- true", "+evalsha"),
    ] {
        let words_of_error = ["ACL SETUSER <user>", right, "docs/permissions.md"];
        ask(&url, words).expect_failure(69, &words_of_error);
    }
}

/// A folder with the file `password`, and its path.
fn password_file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn the_password_may_be_in_a_file_without_the_newline_at_its_end() {
    let server = Server::start();
    add_user(&server, "ann", "hers");
    for text in ["hers", "hers\n", "hers\r\n"] {
        let (_folder, file) = password_file(text);
        for (login, user) in [("ann@", ""), ("", "ann")] {
            let url = format!("redis://{login}{}", server.address());
            let list = || with_long_timeout(&url).env("LEASEHOLD_USER", user);
            for list in [
                list().env("LEASEHOLD_PASSWORD_FILE", &file),
                list().args(["--password-file", &file]),
            ] {
                let listed = list.args(["list", "--json"]).output();
                assert_eq!(listed.code(), Some(0), "{text:?} {login}: {listed:?}");
                assert_eq!(names(&objects(&listed)), ["ann:lock"]);
            }
        }
    }
}

#[test]
fn a_password_in_a_file_and_another_one_exclude_each_other() {
    let server = Server::start();
    let (_folder, file) = password_file("sesame");
    for (login, variable) in [("ann:hers@", ""), ("", "hers")] {
        let url = format!("redis://{login}{}", server.address());
        let list = with_long_timeout(&url).env("LEASEHOLD_PASSWORD", variable);
        let output = list.args(["list", "--password-file", &file]).output();
        output.expect_refusal(64, &["--password-file", "LEASEHOLD_PASSWORD", "exclude"]);
    }
}

#[test]
fn a_url_with_a_password_overrides_a_file_of_the_environment() {
    let server = Server::start();
    add_user(&server, "ann", "hers");
    let url = format!("redis://ann:hers@{}", server.address());
    let list = with_long_timeout(&url).env("LEASEHOLD_PASSWORD_FILE", "/nowhere");
    let listed = list.args(["list", "--json"]).output();
    assert_eq!(listed.code(), Some(0), "{listed:?}");
    assert_eq!(names(&objects(&listed)), ["ann:lock"]);
}

/// As `--password-file <(command)` of a shell, which can be read once.
#[test]
fn the_file_may_be_a_pipe_also_for_several_servers() {
    let servers = [Server::start(), Server::start(), Server::start()];
    for server in &servers {
        with_user(server, "ann", "resetpass >hers +@all ~* &*");
    }
    let urls: Vec<_> = servers
        .iter()
        .map(|server| format!("redis://ann@{}", server.address()))
        .collect();
    // The doctor has two clients of each server.
    let doctor = with_long_timeout(&urls[0]).args(["doctor", "--password-file", "/dev/stdin"]);
    doctor.input("hers\n").output().expect(0);
    for (urls, options) in [(urls[0].clone(), &[][..]), (urls.join(","), &["--redlock"])] {
        with_long_timeout(&urls)
            .args(["run", "--password-file", "/dev/stdin"])
            .args(options)
            .args(["k", "--", "true"])
            .input("hers\n")
            .output()
            .expect_all(0, "", "");
    }
}

#[test]
fn a_file_without_a_password_is_a_mistake_and_a_wrong_password_is_refused_without_it() {
    let server = Server::options().password("right").start();
    let url = format!("redis://{}", server.address());
    let list = |file: &str| with_long_timeout(&url).args(["list", "--password-file", file]);
    list("/nowhere")
        .output()
        .expect_refusal(64, &["/nowhere", "No such file"]);
    // The password in place of the file.
    list("sesame")
        .output()
        .expect_refusal(64, &["--password-file: No such file"]);
    for (text, words) in [("", "no password"), ("\n", "no password")] {
        let (_folder, file) = password_file(text);
        list(&file).output().expect_refusal(64, &[&file, words]);
    }
    let (_folder, file) = password_file("sesame\n");
    let output = list(&file)
        .output()
        .expect_refusal(69, &["refused", "--password-file"]);
    assert!(!output.err.contains("sesame"), "{output:?}");
}

/// The server has another password, and has closed all connections.
#[test]
fn a_lock_is_kept_when_the_password_in_the_file_changes() {
    let server = Server::start();
    let rules = |password: &str| format!("resetpass >{password} +@all ~* &*");
    with_user(&server, "ann", &rules("old"));
    let (_folder, file) = password_file("old\n");
    let url = format!("redis://ann@{}", server.address());
    let lease = LEASE.get() * 3;
    let mut holder = leasehold(&url)
        .args(["hold", "--password-file", &file, "k"])
        .arg(format!("--lease={}ms", lease.as_millis()))
        .keep_input()
        .start();
    assert_eq!(holder.next_output(), "held k\n");
    std::fs::write(&file, "new\n").unwrap();
    with_user(&server, "ann", &rules("new"));
    server.run("CLIENT KILL USER ann");
    throughout(lease * 5 / 4, "it is held", || exists(&server, "k"));
    holder.end_input();
    holder.end().expect_all(0, "", "");
}
