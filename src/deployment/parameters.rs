//! The parameters after the `?` of a URL. They mean the same for a host and for a socket.

use super::fault::{LOG_IN, Result, decoded, fault, shown};
use crate::transport::credentials::Account;

const KNOWN: &str =
    "the parameters are user, pass and db; in a user or a password, write %26 for &";

/// User, password and database, from `?user=..&pass=..&db=..` or from the text before the `?`.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
}

impl Parameters {
    /// Adds those after the `?` of the URL.
    pub(super) fn with_query(mut self, url: &str) -> Result<Self> {
        // What cannot be parsed gets its message later.
        let Some(url) = redis::parse_redis_url(url) else {
            return Ok(self);
        };
        decoded("parameter", url.query().unwrap_or_default())?;
        if url.query().is_some() && url.fragment().is_some() {
            let rule = "in a user or a password, write %23 for #";
            return fault("a # after the ?", rule);
        }
        for (name, value) in url.query_pairs() {
            let (part, slot) = match &*name {
                "user" => ("users", &mut self.user),
                "pass" => ("passwords", &mut self.password),
                "db" => ("databases", &mut self.database),
                _ => continue,
            };
            if slot.get_or_insert_with(|| (*value).to_owned()) != &*value {
                return fault(format!("two different {part}"), "leave out one of them");
            }
        }
        // The name of an unknown one may be the end of a user or a password that contains `&`.
        let may_be_secret = self.user.is_some() || self.password.is_some();
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        for (name, value) in url.query_pairs() {
            let (part, rule) = match (&*name, &*value) {
                // A URL for `redis` may have a protocol.
                ("user" | "pass" | "db", _) | ("protocol", "2" | "3" | "resp2" | "resp3") => {
                    continue;
                }
                ("protocol", _) => (
                    "a protocol that is not known".into(),
                    "leave out the protocol; this client always uses RESP2",
                ),
                (other, value)
                    if may_be_secret || value.is_empty() || !other.chars().all(is_of_name) =>
                {
                    ("a parameter that is not known".into(), KNOWN)
                }
                (other, _) => (format!("parameter {other:?}"), KNOWN),
            };
            return fault(part, rule);
        }
        Ok(self)
    }

    pub(super) fn secrets(&self) -> [&str; 2] {
        [&self.user, &self.password].map(|secret| secret.as_deref().unwrap_or_default())
    }

    pub(super) fn account(self) -> Result<Account> {
        let text = self.database.as_deref().unwrap_or("0");
        let database = text.parse().ok().filter(|&number: &i64| number >= 0);
        let Some(database) = database else {
            let rule =
                format!("a database must be a whole number, or be left out, which is 0; {LOG_IN}");
            return fault(shown("database", text, &self.secrets()), rule);
        };
        Ok(Account {
            username: self.user,
            password: self.password,
            database,
        })
    }
}
