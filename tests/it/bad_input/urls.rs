//! Invalid URLs: the error of `build` names the part that is invalid and its value.

use leasehold::{Error, LockClient};

use super::{SECRET, assert_no_secret, setting};

/// Each URL, and words that the error contains.
const BAD: [(&str, &[&str]); 39] = [
    ("", &["empty", "redis://"]),
    ("  ", &["empty"]),
    ("redis://:hunter2\n@127.0.0.1", &["a newline", "inside"]),
    ("localhost:6379", &["no scheme", "redis://localhost:6379"]),
    ("[::1]:6379", &["no scheme", "redis://[::1]:6379"]),
    ("hunter2", &["no scheme", "redis://"]),
    ("user:hunter2@127.0.0.1", &["no scheme"]),
    ("user:hunter2@redis://127.0.0.1", &["no scheme"]),
    (
        "http://user:hunter2@127.0.0.1",
        &["scheme \"http\"", "rediss"],
    ),
    ("reddis://127.0.0.1", &["scheme \"reddis\""]),
    (
        "rediss:127.0.0.1:6379",
        &["no // after the scheme \"rediss\""],
    ),
    ("redis:/127.0.0.1", &["no // after the scheme \"redis\""]),
    ("redis://", &["no host"]),
    ("redis://:6379", &["no host"]),
    ("redis:///0", &["no host"]),
    ("redis://user:hunter2@", &["no host"]),
    ("redis://user:hunter2@[::1", &["host \"[::1\"", "brackets"]),
    ("redis://::1", &["host \"::1\"", "brackets"]),
    ("redis://[::1]6379", &["host \"[::1]6379\""]),
    ("redis://:hunter2@a b", &["host \"a b\""]),
    ("redis://0.0.0.0", &["host \"0.0.0.0\"", "127.0.0.1"]),
    ("redis://127.0.0.1:99999", &["port \"99999\"", "1 to 65535"]),
    ("redis://127.0.0.1:0", &["port \"0\"", "1 to 65535"]),
    (
        "redis://:hunter2@redis:http",
        &["port \"http\"", "1 to 65535"],
    ),
    // The host is missing, so the password stands where the port is expected.
    ("redis://user:hunter2", &["a port", "1 to 65535", "@"]),
    ("redis://user:hunter2@127.0.0.1:hunter2", &["a port"]),
    (
        "redis://127.0.0.1/one",
        &["database \"one\"", "whole number"],
    ),
    ("redis://127.0.0.1/-1", &["database \"-1\"", "whole number"]),
    ("redis://:hunter/2@127.0.0.1", &["before the @", "%2F"]),
    ("redis://:%ff@hunter2@127.0.0.1", &["password", "UTF-8"]),
    ("redis://%ff:hunter2@127.0.0.1", &["user", "UTF-8"]),
    ("redis://127.0.0.1?protocol=9", &["protocol \"9\""]),
    (
        "redis://127.0.0.1?db=one",
        &["database \"one\"", "whole number"],
    ),
    ("redis://127.0.0.1/2?db=3", &["two different databases"]),
    (
        "redis://:hunter2@127.0.0.1?pass=3",
        &["two different passwords"],
    ),
    (
        "redis://127.0.0.1?timeout=hunter2",
        &["parameter \"timeout\"", "db, user, pass and protocol"],
    ),
    // The end of a password that contains `&`.
    (
        "redis://127.0.0.1?pass=sesame&hunter2=hunter2",
        &["a parameter that is not known", "%26"],
    ),
    ("redis+unix://", &["no path", "/path/to/socket"]),
    ("redis+unix://run/redis.sock", &["path", "redis+unix:///"]),
];

#[test]
fn the_invalid_part_of_a_url_is_named() {
    for (url, words) in BAD {
        let error = LockClient::connect(url).expect_err(url);
        assert_no_secret(&error);
        let text = error.to_string();
        assert_eq!(setting::<()>(Err(error)), "url", "{url:?}");
        for word in words {
            assert!(text.contains(word), "no {word:?} for {url:?}: {text}");
        }
        assert!(!text.contains("did not parse"), "{text}");
    }
}

#[test]
fn the_invalid_part_of_a_url_in_a_list_is_named() {
    for (url, words) in BAD.into_iter().filter(|(url, _)| !url.contains("unix")) {
        let urls = ["redis://127.0.0.1:1", url, "redis://127.0.0.1:2"];
        let error = LockClient::builder_cluster(urls).build().expect_err(url);
        assert_no_secret(&error);
        let text = error.to_string();
        assert_eq!(setting::<()>(Err(error)), "nodes", "{url:?}");
        for word in words.iter().chain(&["number 2 of 3"]) {
            assert!(text.contains(word), "no {word:?} for {url:?}: {text}");
        }
        assert!(!text.contains("unix"), "{text}");
    }
}

/// Every URL that `redis` accepts is accepted.
#[test]
fn an_unusual_url_is_accepted() {
    for url in [
        "REDIS://LOCALHOST:6379/0/",
        "valkey://localhost",
        "redis://localhost:",
        "redis://[::1]:6379/3",
        "redis://user@localhost",
        "redis://:p@ss%20w%rd:%C3%9F@localhost",
        "redis://a_host.with-signs:65535?protocol=resp2&db=0",
        "redis://localhost\r\n",
        " redis://localhost\t",
        "unix:/run/redis.sock",
        "redis+unix:///run/redis.sock?db=3&user=a&pass=b@c",
        "unix://localhost/run/redis.sock",
    ] {
        let built = LockClient::connect(url);
        built.unwrap_or_else(|error| panic!("{url:?}: {error}"));
    }
}

/// The error shows neither user nor password, even if another part of the URL repeats them.
#[test]
fn parts_that_repeat_a_secret_are_not_shown() {
    for url in [
        format!("redis://user:{SECRET}@h:{SECRET}"),
        format!("redis://{SECRET}:x@h:1{SECRET}"),
        format!("redis://user:{SECRET}@h/{SECRET}"),
        format!("redis://user:{SECRET}@{SECRET}^"),
        format!("redis://user:1/{SECRET}@h"),
        format!("redis://user:1?{SECRET}@h"),
        format!("redis+unix:///s?pass={SECRET}&db={SECRET}"),
        format!("redis://h/{SECRET}?pass={SECRET}"),
        format!("redis://h?protocol={SECRET}&pass={SECRET}"),
        format!("redis://h?pass=a&{SECRET}"),
        format!("redis://h?{SECRET}=a&user={SECRET}"),
    ] {
        let error = LockClient::connect(&url).expect_err("it is bad");
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
        assert_no_secret(&error);
    }
}
