//! Invalid URLs: the error of `build` names the part that is invalid and its value, alone and in a
//! list. `deployment::url` has unit tests for each part.

use leasehold::LockClient;

use super::{SECRET, assert_no_secret, setting};

/// Each URL, and words that the error contains.
const BAD: [(&str, &[&str]); 14] = [
    ("  ", &["empty", "redis://"]),
    ("redis://:hunter2\n@127.0.0.1", &["a newline", "inside"]),
    ("[::1]:6379", &["no scheme", "redis://[::1]:6379"]),
    ("user:hunter2@redis://127.0.0.1", &["no scheme"]),
    ("http://u:hunter2@h", &["scheme \"http\"", "rediss"]),
    ("redis:/127.0.0.1", &["no // after the scheme \"redis\""]),
    ("redis://user:hunter2@[::1", &["host \"[::1\"", "brackets"]),
    ("redis://0.0.0.0", &["host \"0.0.0.0\"", "127.0.0.1"]),
    ("redis://:hunter2@h:http", &["port \"http\"", "1 to 65535"]),
    // The host is missing, so the password stands where the port is expected.
    ("redis://user:hunter2", &["a port", "1 to 65535", "@"]),
    ("redis://:hunter/2@127.0.0.1", &["before the @", "%2F"]),
    (
        "redis://h?timeout=hunter2",
        &["db, user, pass and protocol"],
    ),
    // The end of a password that contains `&`.
    ("redis://h?pass=a&hunter2=hunter2", &["not known", "%26"]),
    ("redis+unix://run/redis.sock", &["path", "redis+unix:///"]),
];

#[test]
fn the_invalid_part_of_a_url_is_named_alone_and_in_a_list() {
    for (url, words) in BAD {
        let list = ["redis://127.0.0.1:1", url, "redis://127.0.0.1:2"];
        for (builder, field, place) in [
            (LockClient::builder(url), "url", ""),
            (LockClient::builder_cluster(list), "nodes", "number 2 of 3"),
        ] {
            if field == "nodes" && url.contains("unix") {
                continue;
            }
            let error = builder.build().expect_err(url);
            assert_no_secret(&error);
            let text = error.to_string();
            assert_eq!(setting::<()>(Err(error)), field, "{url:?}");
            for word in words.iter().chain(&[place]) {
                assert!(text.contains(word), "no {word:?} for {url:?}: {text}");
            }
            assert!(!text.contains("did not parse"), "{text}");
            assert!(field == "url" || !text.contains("unix"), "{text}");
        }
    }
}

#[test]
fn an_unusual_url_is_accepted() {
    for url in [
        "REDIS://LOCALHOST:6379/0/",
        "valkey://localhost",
        "redis://:p@ss%20w%rd:%C3%9F@localhost",
        "redis://a_host.with-signs:65535?protocol=resp2&db=0",
        " redis://localhost\t\r\n",
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
        format!("redis://user:{SECRET}@{SECRET}^"),
        format!("redis+unix:///s?pass={SECRET}&db={SECRET}"),
        format!("redis://h?protocol={SECRET}&pass={SECRET}"),
        format!("redis://h?{SECRET}=a&user={SECRET}"),
    ] {
        let error = LockClient::connect(&url).expect_err("it is bad");
        assert_no_secret(&error);
        assert_eq!(setting::<()>(Err(error)), "url");
    }
}
