//! Reads a URL. The crate `redis` parses it; the parameters after the `?` mean the same for a host
//! and for a socket here.

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::{Fault, NamedServer, fault};
use crate::transport::credentials::Credentials;

const FORM: &str = "a URL has the form redis://[user:password@]host[:port][/database], with \
                    rediss:// for TLS, or redis+unix:///path/to/socket?user=..&pass=..&db=..; in a \
                    user or a password, write %40 for @, %2F for /, %3F for ?, %23 for # and %25 \
                    for %";

const PARAMETERS: &str = "the parameters are user, pass, db and protocol (2 or 3), in UTF-8; in a \
                          user or a password, write %26 for &";

const SOCKET: &str = "write redis+unix:///path/to/socket?user=..&pass=..; in a path, write %26 for \
                      &, %3B for ;, %2C for , and %3D for =";

impl NamedServer {
    /// The server that this URL names.
    pub(crate) fn of_url(text: &str) -> Result<Self, Fault> {
        // The parser would drop newlines and tabs in a password.
        if text.trim().contains(char::is_control) {
            let rule = "remove it, or write it as %0A (newline), %0D or %09 (tab) if it is part \
                        of the password";
            return fault("a control character", rule);
        }
        let Some(mut url) = redis::parse_redis_url(text.trim()) else {
            return fault("not readable", FORM);
        };
        if url.fragment().is_some() {
            let rule = "write %23 for a # in a user or a password; #insecure is not supported, \
                        because certificates are always checked: set the authority to trust";
            return fault("a fragment, which begins with #", rule);
        }
        let with_tls = ["rediss", "valkeys"].contains(&url.scheme());
        if with_tls {
            // `redis` reads URLs with TLS only if its own TLS is built in.
            let _ = url.set_scheme("redis");
        }
        for (name, value) in url.query_pairs() {
            match &*name {
                "user" | "pass" | "db" if !value.contains('\u{fffd}') => {}
                "protocol" if ["2", "3", "resp2", "resp3"].contains(&&*value) => {}
                _ => return fault("a parameter that is not known", PARAMETERS),
            }
        }
        let Ok(info) = url.clone().into_connection_info() else {
            return fault("not readable", FORM);
        };
        let server = Self::of_info(&info)?;
        if matches!(server.address, ConnectionAddr::Unix(_)) {
            // Every message about the server shows the path. What follows these may be a password.
            let has_more = url.path().contains(['&', ';', ',', '=']);
            if has_more || !url.username().is_empty() || url.password().is_some() {
                let part = "a path with one of & ; , = or with a user before it";
                return fault(part, SOCKET);
            }
        }
        let one = |name: &str, before: Option<String>| {
            let given = url.query_pairs().filter(|(key, _)| key == name);
            let given = given.map(|(_, value)| value.into_owned());
            let all = before.into_iter().chain(given);
            let mut all: Vec<String> = all.filter(|value| !value.is_empty()).collect();
            all.dedup();
            match all.len() {
                0 | 1 => Ok(all.pop()),
                _ => {
                    let part = "two different users, passwords or databases";
                    fault(part, "leave out one of them")
                }
            }
        };
        let settings = info.redis_settings();
        let user = one("user", settings.username().map(Into::into))?;
        let password = one("pass", settings.password().map(Into::into))?;
        let of_path = (settings.db() != 0).then(|| settings.db().to_string());
        let Ok(database) = one("db", of_path)?.unwrap_or("0".into()).parse() else {
            return fault("not readable", FORM);
        };
        let server = Self {
            credentials: Credentials::of(user, password),
            database,
            with_tls,
            ..server
        };
        server.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_refused_and_the_error_has_no_part_of_it() {
        let host = "a host that is not shown, because it may contain a password";
        let path = "a path with one of & ; , = or with a user before it";
        let two = "two different users, passwords or databases";
        for (url, part) in [
            ("", "not readable"),
            ("\u{feff}redis://h", "not readable"),
            ("redis://u:p\n@h", "a control character"),
            ("h:1", "not readable"),
            ("http://h", "not readable"),
            ("redis:h", "not readable"),
            ("redis://u:p@", "not readable"),
            ("redis://u:p@h:70000", "not readable"),
            ("redis://ann@h:sesam", "not readable"),
            ("redis://:pa/sesam@h", "not readable"),
            ("redis://u:1/sesam@h", "not readable"),
            ("redis://u:1#sesam@h", "a fragment, which begins with #"),
            ("redis://u:1?sesam@h", "a parameter that is not known"),
            ("redis://u:%ff@h", "not readable"),
            ("redis://0.0.0.0", "not readable"),
            ("redis://[::]:1", "not readable"),
            ("redis://::1", "not readable"),
            ("redis://h/0&pass=sesam", "not readable"),
            ("redis://h/0/0", "not readable"),
            ("redis://h/-1", "a negative database"),
            ("redis://h?db=-1", "a negative database"),
            ("redis://h?db=sesam", "not readable"),
            ("unix:///s?db=sesam", "not readable"),
            ("redis://h&pass=sesam", host),
            ("redis://h;pass=sesam:1", host),
            ("redis://ann%3Asesam%40h", host),
            ("unix:run", "not readable"),
            ("unix:///s&pass=sesam", path),
            ("unix://sesam@localhost/s", path),
            ("redis+unix://:sesam@/s", "not readable"),
            ("redis://h/2?db=3", two),
            ("unix:///s?db=2&db=3", two),
            ("redis://ann@h?user=bob", two),
            ("redis://:p@h?pass=q", two),
            ("redis://h?timeout=5s", "a parameter that is not known"),
            ("rediss://h?DB=3", "a parameter that is not known"),
            ("redis://h?protocol=sesam", "a parameter that is not known"),
            ("redis://h?pass=%ff", "a parameter that is not known"),
            ("rediss://h#insecure", "a fragment, which begins with #"),
        ] {
            let found = NamedServer::of_url(url).map(drop).unwrap_err();
            assert_eq!(found.part, part, "{url:?}");
        }
    }

    #[test]
    fn the_scheme_decides_about_tls() {
        for (url, with_tls) in [
            ("REDISS://u:p@h:1/2", true),
            ("valkeys://h", true),
            ("redis://h", false),
            ("unix:///rediss://h", false),
        ] {
            let server = NamedServer::of_url(url).unwrap();
            assert_eq!(server.with_tls, with_tls, "{url}");
        }
    }

    #[test]
    fn parameters_mean_the_same_on_every_url() {
        let read = |url: &str| {
            let found = NamedServer::of_url(url).unwrap();
            let credentials = found.credentials.map(|one| (one.user, one.password));
            (credentials, found.database)
        };
        let expected = (Some((Some("ann".into()), "p&w d".into())), 3);
        for url in [
            "unix:///s?db=3&user=ann&pass=p%26w+d",
            "redis://h?db=3&user=ann&pass=p%26w+d",
            "rediss://h:1/?pass=p%26w%20d&protocol=resp3&user=ann&db=3",
            "valkey://ann:p%26w%20d@h/3",
            "redis://ann@h/3?pass=p%26w+d",
            "redis://ann:p%26w%20d@h/3?user=ann&pass=p%26w+d&db=3",
        ] {
            assert_eq!(read(url), expected, "{url}");
        }
        assert_eq!(read("redis://:@h?"), (None, 0));
    }
}
