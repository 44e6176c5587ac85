//! A builder from a configuration file: feature `serde`.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};

use super::LockClientBuilder;
use crate::deployment::Deployment;

/// Reads the settings of a client from a configuration file in a format that describes itself, such
/// as TOML, YAML or JSON. Needs the feature `serde`, which is off by default.
///
/// The keys are the names of the builder's methods, and `url`, or `sentinels` and `master`, or
/// `nodes` for the deployment. All others are optional.
///
/// | key | value |
/// |---|---|
/// | `url` | a URL, as for [`LockClient::builder`](crate::LockClient::builder) |
/// | `sentinels`, `master` | URLs and a name, as for [`builder_sentinel`] |
/// | `nodes` | URLs, as for [`builder_cluster`] |
/// | `username`, `password` | as for [`credentials`](Self::credentials) |
/// | `namespace` | a text |
/// | `watchdog_lease`, `confirm_every`, `linger` | a duration |
/// | `connect_timeout`, `command_timeout`, `give_up_after` | a duration |
/// | `connections`, `replica_connections` | a number |
/// | `name_connections` | true or false |
/// | `min_replicas`, `min_replicas_timeout` | a number and a duration, both or none |
/// | `ca_certificates` | PEM |
/// | `client_certificate`, `client_key` | PEM, both or none |
///
/// A duration is a text with a unit, such as `"30s"`, `"500ms"` or `"1m 30s"` (the format of the
/// crate `humantime`). Unknown keys, and a duration without a unit, are errors of the format; the
/// bounds are checked by [`build`](Self::build). No error of this crate contains a password, but
/// the error of a format may show the line that it could not read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::LockClientBuilder;
///
/// #[derive(serde::Deserialize)]
/// struct Config {
///     locks: LockClientBuilder,
/// }
///
/// let config: Config = serde_json::from_str(
///     r#"{ "locks": {
///         "url": "redis://127.0.0.1:6379",
///         "password": "secret",
///         "namespace": "shop",
///         "watchdog_lease": "10s",
///         "command_timeout": "500ms"
///     } }"#,
/// )?;
/// assert!(!format!("{:?}", config.locks).contains("secret"));
/// let client = config.locks.build()?;
/// # Ok(())
/// # }
/// ```
///
/// There is no `Serialize`: it would write passwords.
///
/// [`builder_sentinel`]: crate::LockClient::builder_sentinel
/// [`builder_cluster`]: crate::LockClient::builder_cluster
impl<'de> Deserialize<'de> for LockClientBuilder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = FileSettings::deserialize(deserializer)?;
        settings.into_builder().map_err(D::Error::custom)
    }
}

/// The keys and their values.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSettings {
    url: Option<String>,
    sentinels: Option<UrlList>,
    master: Option<String>,
    nodes: Option<UrlList>,
    username: Option<String>,
    password: Option<Secret>,
    namespace: Option<String>,
    watchdog_lease: Option<Time>,
    linger: Option<Time>,
    confirm_every: Option<Time>,
    connections: Option<u32>,
    replica_connections: Option<u32>,
    connect_timeout: Option<Time>,
    command_timeout: Option<Time>,
    give_up_after: Option<Time>,
    name_connections: Option<bool>,
    min_replicas: Option<u32>,
    min_replicas_timeout: Option<Time>,
    ca_certificates: Option<String>,
    client_certificate: Option<String>,
    client_key: Option<Secret>,
}

impl FileSettings {
    /// Fails if keys are missing or exclude each other. The text contains no value.
    fn into_builder(self) -> Result<LockClientBuilder, &'static str> {
        let (deployment, urls) = match (self.url, self.sentinels, self.master, self.nodes) {
            (Some(url), None, None, None) => (Deployment::Single, vec![url]),
            (None, Some(UrlList(sentinels)), Some(master), None) => {
                (Deployment::Sentinel { master }, sentinels)
            }
            (None, None, None, Some(UrlList(nodes))) => (Deployment::Cluster, nodes),
            _ => {
                let rule =
                    "exactly one of `url`, `sentinels` with `master`, and `nodes` is required";
                return Err(rule);
            }
        };
        if self.username.is_some() && self.password.is_none() {
            return Err("`username` needs `password`");
        }
        if self.min_replicas.is_some() != self.min_replicas_timeout.is_some() {
            return Err("`min_replicas` and `min_replicas_timeout` need each other");
        }
        if self.client_certificate.is_some() != self.client_key.is_some() {
            return Err("`client_certificate` and `client_key` need each other");
        }
        let mut builder = LockClientBuilder::of_urls(deployment, urls);
        if let Some(Secret(password)) = self.password {
            builder = builder.credentials(self.username.as_deref(), &password);
        }
        if let (Some(chain), Some(Secret(key))) = (self.client_certificate, self.client_key) {
            builder = builder.client_certificate(chain, key);
        }
        if let Some(pem) = self.ca_certificates {
            builder = builder.ca_certificates(pem);
        }
        let options = &mut builder.options;
        options.give_up_after = self.give_up_after.map(|Time(time)| time);
        let replicas = self.min_replicas.zip(self.min_replicas_timeout);
        options.min_replicas = replicas.map(|(replicas, Time(timeout))| (replicas, timeout));
        set(&mut options.namespace, self.namespace);
        set(&mut options.connections, self.connections);
        set(&mut options.replica_connections, self.replica_connections);
        set(&mut options.name_connections, self.name_connections);
        for (option, time) in [
            (&mut options.watchdog_lease, self.watchdog_lease),
            (&mut options.linger, self.linger),
            (&mut options.confirm_every, self.confirm_every),
            (&mut options.connect_timeout, self.connect_timeout),
            (&mut options.command_timeout, self.command_timeout),
        ] {
            set(option, time.map(|Time(time)| time));
        }
        Ok(builder)
    }
}

/// Sets an option whose key is given.
fn set<T>(option: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *option = value;
    }
}

/// A duration as `humantime` reads it.
struct Time(Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer).ok();
        let time = text.and_then(|text| humantime::parse_duration(&text).ok());
        // The text is not shown: it may stand at the wrong key.
        time.map(Self).ok_or_else(|| {
            D::Error::custom("expected a duration with a unit, such as \"30s\" or \"500ms\"")
        })
    }
}

/// A text that no error contains. The errors of `serde` and of formats would show a number.
struct Secret(String);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rule = "a password or a key must be a text";
        unshown(deserializer, rule).map(Self)
    }
}

/// URLs, which no error contains, because they may have passwords.
struct UrlList(Vec<String>);

impl<'de> Deserialize<'de> for UrlList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rule = "`sentinels` and `nodes` must be lists of URLs";
        unshown(deserializer, rule).map(Self)
    }
}

/// A value that the error for another type does not show.
fn unshown<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    rule: &str,
) -> Result<T, D::Error> {
    match WantedOrOther::deserialize(deserializer) {
        Ok(WantedOrOther::Wanted(value)) => Ok(value),
        _ => Err(D::Error::custom(rule)),
    }
}

/// A value of the wanted type, or of any other. The value is read before its type is chosen:
/// otherwise YAML makes a text of a number where only a text is possible.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum WantedOrOther<T> {
    Wanted(T),
    Other(IgnoredAny),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn read(settings: Value) -> Result<LockClientBuilder, String> {
        from_value(settings).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_a_setting_of_the_builder() {
        let settings = json!({
            "url": "redis://h:1/2",
            "username": "locks",
            "password": "hunter2",
            "namespace": "shop",
            "watchdog_lease": "1m 30s",
            "linger": "5ms",
            "confirm_every": "2s",
            "replica_connections": 3,
            "connect_timeout": "5s",
            "command_timeout": "600ms",
            "give_up_after": "70s",
            "name_connections": false,
            "min_replicas": 1,
            "min_replicas_timeout": "70ms",
        });
        let builder = read(settings).unwrap();
        assert!(!format!("{builder:?}").contains("hunter2"));
        let config = builder.validate().unwrap();
        let millis = Duration::from_millis;
        let times = [
            config.watchdog_lease,
            config.linger,
            config.confirm_every,
            config.connect_timeout,
            config.command_timeout,
            config.give_up_after(),
        ];
        assert_eq!(times, [90_000, 5, 2_000, 5_000, 600, 70_000].map(millis));
        assert_eq!(config.min_replicas, Some((1, millis(70))));
        assert_eq!(
            (config.replica_connections, &*config.namespace),
            (3, "shop")
        );
        assert!(!config.name_connections);
        let credentials = config.credentials.unwrap();
        assert_eq!(credentials.user.as_deref(), Some("locks"));
        assert_eq!((&*credentials.password, config.database), ("hunter2", 2));
    }

    /// The error of an unknown key lists all keys.
    #[test]
    fn every_setting_of_the_builder_has_a_key_and_is_documented() {
        let keys = read(json!({ "unknown": 1 })).unwrap_err();
        let methods = include_str!("../config.rs").split("pub fn ");
        let methods = methods.filter_map(|text| text.split_once('('));
        let setters = methods.filter(|(_, rest)| rest.trim_start().starts_with("mut self"));
        let names: Vec<String> = setters.map(|(name, _)| format!("`{name}`")).collect();
        assert!(names.contains(&"`linger`".into()), "{names:?}");
        let page = include_str!("../../docs/settings.md");
        for name in names {
            assert!(page.contains(&format!("| {name} |")), "{name} in the docs");
            // Keys are `username` and `password`, and a function has no key.
            let is_function = name == "`metric_label`" || name.starts_with("`credentials");
            if !is_function {
                assert!(keys.contains(&name), "no key {name}: {keys}");
            }
        }
    }

    #[test]
    fn each_deployment_has_its_keys() {
        let urls = ["redis://a:1", "redis://b:2"];
        let config = |settings| read(settings).unwrap().validate().unwrap();
        let single = config(json!({ "url": urls[0] }));
        assert!(matches!(single.deployment, Deployment::Single));
        let sentinel = config(json!({ "sentinels": urls, "master": "m" }));
        assert!(matches!(sentinel.deployment, Deployment::Sentinel { master } if master == "m"));
        let cluster = config(json!({ "nodes": urls }));
        assert!(matches!(cluster.deployment, Deployment::Cluster));
        assert_eq!(cluster.seeds.len(), 2);
    }

    #[test]
    fn what_is_missing_unknown_or_unclear_is_refused_without_secrets() {
        let url = "redis://:hunter2@h";
        for (settings, words) in [
            (json!({}), "exactly one of `url`"),
            (json!({ "url": url, "nodes": [url] }), "exactly one of"),
            (json!({ "sentinels": [url] }), "`master`"),
            (json!({ "url": url, "master": "m" }), "exactly one of"),
            (json!({ "url": url, "username": "u" }), "`username` needs"),
            (json!({ "url": url, "min_replicas": 1 }), "need each other"),
            (
                json!({ "url": url, "client_key": "hunter2" }),
                "need each other",
            ),
            (
                json!({ "url": url, "lease": "10s" }),
                "unknown field `lease`",
            ),
            (json!({ "url": url, "linger": 5 }), "a duration with a unit"),
            (
                json!({ "url": url, "linger": "hunter2" }),
                "a duration with a unit",
            ),
            (json!({ "url": url, "password": 471147 }), "must be a text"),
            (
                json!({ "url": url, "password": -4711.47 }),
                "must be a text",
            ),
            (json!({ "nodes": url }), "must be lists of URLs"),
            (json!({ "nodes": [url, [url]] }), "must be lists of URLs"),
            (
                json!({ "sentinels": url, "master": "m" }),
                "must be lists of URLs",
            ),
        ] {
            let error = read(settings).unwrap_err();
            assert!(error.contains(words), "no {words:?}: {error}");
            assert!(
                !error.contains("hunter2") && !error.contains("4711"),
                "{error}"
            );
        }
    }

    #[test]
    fn bounds_are_those_of_the_builder() {
        let builder = read(json!({ "url": "redis://h", "linger": "1h" })).unwrap();
        let error = builder.validate().map(drop).unwrap_err().to_string();
        assert!(error.starts_with("linger is"), "{error}");
    }
}
