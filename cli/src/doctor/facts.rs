//! Names and values that a server reports about itself.

use std::collections::HashMap;

use redis::Value;

use crate::probe::Reply;

/// The values of INFO, of CLUSTER INFO, or of settings.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    values: HashMap<String, String>,
    /// Why values are missing.
    pub(super) why_not: String,
}

impl Facts {
    /// From the replies to a command: pairs, or lines of `name:value`. What was refused is missing.
    pub(super) fn of(command: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut values = HashMap::new();
        let mut why_not = "the server does not report it".into();
        for reply in replies {
            match reply.map(pairs) {
                Ok(Some(pairs)) => values.extend(pairs),
                Ok(None) => why_not = format!("the reply to {command} has an unexpected form"),
                Err(error) => {
                    why_not = match error.cause.code() {
                        Some("NOPERM") => {
                            format!("the user may not use {command}, which locks do not need")
                        }
                        code => format!("the reply to {command} is {}", code.unwrap_or("an error")),
                    }
                }
            }
        }
        Self { values, why_not }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

fn pairs(reply: Value) -> Option<HashMap<String, String>> {
    if let Ok(text) = redis::from_redis_value_ref::<String>(&reply) {
        let pairs = text
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'));
        return Some(
            pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        );
    }
    redis::from_redis_value(reply).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tests::{refusal, replies};

    pub(in crate::doctor) fn facts(text: &str) -> Facts {
        let value = Value::BulkString(text.as_bytes().into());
        Facts::of("INFO", [Ok(value)])
    }

    pub(in crate::doctor) fn refused() -> Facts {
        Facts::of(
            "INFO",
            [Err(refusal("NOPERM this user has no permissions"))],
        )
    }

    #[test]
    fn lines_become_values() {
        let facts = facts("# Server\r\nredis_version:7.0.15\r\nslave0:ip=::1,port=2\r\nn:12\r\n");
        assert_eq!(facts.get("redis_version"), Some("7.0.15"));
        assert_eq!(facts.get("slave0"), Some("ip=::1,port=2"));
        assert_eq!(facts.number("n"), Some(12));
        assert_eq!(facts.get("# Server"), None);
    }

    #[test]
    fn a_refusal_says_that_locks_do_not_need_the_command() {
        assert_eq!(refused().get("redis_version"), None);
        assert!(refused().why_not.contains("may not use INFO"));
    }

    #[test]
    fn a_refused_setting_does_not_hide_the_others() {
        let facts = Facts::of(
            "CONFIG GET",
            replies(&["-NOPERM no", "*2\r\n+timeout\r\n+0", "*0"]),
        );
        assert_eq!(facts.number("timeout"), Some(0));
        assert!(facts.why_not.contains("CONFIG GET"));
    }
}
