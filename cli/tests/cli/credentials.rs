//! Which user the program is: of the command line, of the URL, of the environment.

use crate::locks::{names, plant, with_long_timeout};
use crate::support::server::Server;

/// A user who sees the locks of its own name.
fn add_user(server: &Server, user: &str, password: &str) {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg(user).arg("on").arg("+@all");
    acl.arg(format!(">{password}")).arg(format!("~{user}:*"));
    let () = server.ask(&acl);
    plant(server, format!("{user}:lock").as_bytes());
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
        assert_eq!(names(&listed), [format!("{expected}:lock")], "{what}");
    }
}

#[test]
fn a_user_without_a_password_is_reported() {
    let server = Server::start();
    for url in ["", "ann@", "ann:hers@"] {
        let program = with_long_timeout(&format!("redis://{url}{}", server.address()));
        let output = program.args(["list", "--user", "bob"]).output();
        output.expect_failure(64, &["--user", "LEASEHOLD_PASSWORD"]);
    }
}

/// The library names its own settings for this; the command names its options.
#[test]
fn a_wrong_password_is_reported_with_the_options_of_the_command() {
    let server = Server::options().password("right").start();
    for login in ["", ":wrong@", "unknown:wrong@"] {
        let url = format!("redis://{login}{}", server.address());
        for arguments in ["list", "show k", "run --no-wait k -- true"] {
            let output = with_long_timeout(&url).args(arguments.split(' ')).output();
            let words = ["refused", "--user", "LEASEHOLD_PASSWORD"];
            let output = output.expect_failure(69, &words);
            assert!(!output.err.contains("LockClient"), "{output:?}");
        }
    }
}

#[test]
fn a_missing_permission_is_reported_with_its_rule() {
    let server = Server::start();
    add_user(&server, "ann", "hers");
    server.ask::<()>(
        redis::cmd("ACL")
            .arg("SETUSER")
            .arg("ann")
            .arg("-scan")
            .arg("-evalsha"),
    );
    let url = format!("redis://ann:hers@{}", server.address());
    for (arguments, right) in [
        ("list", "+scan"),
        ("run --no-wait ann:l -- true", "+evalsha"),
    ] {
        let output = with_long_timeout(&url).args(arguments.split(' ')).output();
        output.expect_failure(69, &["ACL SETUSER <user>", right, "leasehold doctor"]);
    }
}
