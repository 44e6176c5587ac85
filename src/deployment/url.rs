//! Checks a URL part by part, because the errors of `redis` do not name the invalid part. Pure.

use std::net::Ipv6Addr;

use super::fault::{Result, decoded, fault, shown};
use super::parameters::Parameters;

const TCP: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];
const UNIX: [&str; 3] = ["redis+unix", "valkey+unix", "unix"];

/// A longer number after a colon may be a password, so it is not shown as a port.
const LONGEST_PORT: usize = 6;

/// Checks a URL, and returns its parameters. `sockets`: the URL may name a Unix socket.
pub(super) fn check(url: &str, sockets: bool) -> Result<Parameters> {
    let form = if sockets {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for \
         TLS, or redis+unix:///path/to/socket"
    } else {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for TLS"
    };
    check_control_characters(url, form)?;
    let (scheme, rest) = split_scheme(url, form)?;
    if UNIX.contains(&&*scheme) {
        check_socket(&scheme, rest)?;
        return Parameters::default().with_query(url);
    }
    if !TCP.contains(&&*scheme) {
        return fault(format!("scheme {scheme:?}"), form);
    }
    match rest.strip_prefix("//") {
        Some(rest) => check_tcp(url, rest, form),
        None => fault(format!("no // after the scheme {scheme:?}"), form),
    }
}

/// Refuses control characters, because `redis` silently drops newlines and tabs in a password.
fn check_control_characters(url: &str, form: &str) -> Result<()> {
    if url.is_empty() {
        return fault("empty", form);
    }
    let name = match url.chars().find(|c| c.is_control()) {
        None => return Ok(()),
        Some('\n' | '\r') => "a newline",
        Some('\t') => "a tab",
        Some(_) => "a control character",
    };
    let rule =
        "remove it, or write it as %0A (newline), %0D or %09 (tab) if it is part of the password";
    fault(format!("{name} inside"), rule)
}

/// Returns the scheme in lower case, and the text after its colon. `host:port` has no scheme.
fn split_scheme<'a>(url: &'a str, form: &str) -> Result<(String, &'a str)> {
    let is_scheme = |text: &str| {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    if let Some((scheme, rest)) = url.split_once(':') {
        let lower = scheme.to_ascii_lowercase();
        let is_known = TCP.contains(&&*lower) || UNIX.contains(&&*lower);
        if is_known || is_scheme(scheme) && rest.starts_with("//") {
            return Ok((lower, rest));
        }
    }
    // Other text is not shown, because it may contain a user or a password.
    let is_host = |host: &str| {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_name = |host: &str| {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !host.is_empty() && host.chars().all(is_of_name)
        };
        inner.map_or_else(|| is_name(host), |inner| inner.parse::<Ipv6Addr>().is_ok())
    };
    let is_host_and_port = url
        .rsplit_once(':')
        .is_some_and(|(host, port)| is_host(host) && may_be_port(port));
    if is_host_and_port {
        return fault("no scheme", format!("write redis://{url}"));
    }
    fault("no scheme", form)
}

fn may_be_port(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_PORT && text.bytes().all(|b| b.is_ascii_digit())
}

/// Checks `[user[:password]@]host[:port][/database][?parameters]`, the `rest` of a URL.
fn check_tcp(url: &str, rest: &str, form: &str) -> Result<Parameters> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        let rule = "in a user or a password, write %2F for /, %3F for ?, %23 for # and %40 for @";
        return fault("a /, ? or # before the @", rule);
    }
    let (log_in, address) = match authority.rsplit_once('@') {
        Some((log_in, address)) => (Some(log_in), address),
        None => (None, authority),
    };
    let (user, password) = log_in.map_or(("", ""), |it| it.split_once(':').unwrap_or((it, "")));
    let path = tail.split(['?', '#']).next().unwrap_or(tail);
    let before_the_query = Parameters {
        user: decoded("user", user)?,
        password: decoded("password", password)?,
        database: decoded("database", path.trim_matches('/'))?,
    };
    let parameters = before_the_query.with_query(url)?;
    let secrets = [&[user, password][..], &parameters.secrets()].concat();
    let port = check_host(address, &secrets, form)?;
    let is_port = |port: &&str| {
        port.is_empty()
            || port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|number| number > 0)
    };
    if let Some(port) = port.filter(|port| !is_port(port)) {
        let rule = "a port must be a whole number from 1 to 65535";
        if log_in.is_some() || may_be_port(port) {
            return fault(shown("port", port, &secrets), rule);
        }
        let rule = format!("{rule}; a user and a password must be followed by @ and a host");
        return fault("a port that is not a number", rule);
    }
    Ok(parameters)
}

/// Checks the host. Returns the text of the port, if there is one.
fn check_host<'a>(address: &'a str, secrets: &[&str], form: &str) -> Result<Option<&'a str>> {
    const BRACKETS: &str = "write an IPv6 address in brackets, as in redis://[::1]:6379";
    let bad = |host: &str, rule: &str| fault(shown("host", host, secrets), rule);
    if let Some(inner) = address.strip_prefix('[') {
        let Some((inner, port)) = inner.split_once(']') else {
            return bad(address, BRACKETS);
        };
        let port = match port.strip_prefix(':') {
            None if !port.is_empty() => return bad(address, BRACKETS),
            port => port,
        };
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) if ip.is_unspecified() => bad(&address[..inner.len() + 2], WILDCARD),
            Ok(_) => Ok(port),
            Err(_) => bad(address, BRACKETS),
        };
    }
    if address.parse::<Ipv6Addr>().is_ok() {
        return bad(address, BRACKETS);
    }
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (address, None),
    };
    match host {
        "" => fault("no host", form),
        "0.0.0.0" => bad(host, WILDCARD),
        _ if host.contains([' ', '<', '>', '[', ']', '\\', '^', '|']) => {
            bad(host, "a host must be a name or an address")
        }
        _ => Ok(port),
    }
}

const WILDCARD: &str = "a client cannot connect to this address; use 127.0.0.1 for this machine";

/// Checks the part after the colon of `scheme:///path[?parameters]`.
fn check_socket(scheme: &str, rest: &str) -> Result<()> {
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    let path = match path.strip_prefix("//") {
        Some(path) => path.strip_prefix("localhost").unwrap_or(path),
        None => path,
    };
    if path.starts_with('/') {
        return Ok(());
    }
    let part = if path.is_empty() {
        "no path"
    } else {
        "a path that does not begin with /"
    };
    fault(part, format!("write {scheme}:///path/to/socket"))
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn an_invalid_part_is_named_with_its_text() {
        for (url, part) in [
            ("", "empty"),
            ("\u{feff}redis://h", "no scheme"),
            ("h:1", "no scheme"),
            ("HTTP://h", "scheme \"http\""),
            ("redis:h", "no // after the scheme \"redis\""),
            ("redis://u:p@", "no host"),
            ("redis://u:p@h:70000", "port \"70000\""),
            ("redis://u:p@h:+1", "port \"+1\""),
            ("redis://h:+1", "a port that is not a number"),
            ("redis://u:p@[::1%eth0]", "host \"[::1%eth0]\""),
            ("redis://[0::0]:1", "host \"[0::0]\""),
            ("redis://u:p@h/0/0", "database \"0/0\""),
            ("unix:run", "a path that does not begin with /"),
            ("unix:///s?db=x", "database \"x\""),
            ("redis://h?db=x", "database \"x\""),
            ("redis://h/2?db=3", "two different databases"),
            ("unix:///s?db=2&db=3", "two different databases"),
            ("redis://ann@h?user=bob", "two different users"),
            ("redis://:p@h?pass=q", "two different passwords"),
            ("redis://h?timeout=5s", "parameter \"timeout\""),
            ("rediss://h?DB=3", "parameter \"DB\""),
            ("unix:///s?pass=p&sesam", "a parameter that is not known"),
            ("redis://h?pass=p#sesam", "a # after the ?"),
            ("redis://h?pass=%ff", "a parameter that is not UTF-8"),
        ] {
            let found = check(url, true).unwrap_err();
            assert_eq!(found.part, part, "{url:?}");
        }
    }

    #[test]
    fn parameters_mean_the_same_on_every_url() {
        let read = |url: &str| {
            let parameters = check(url, true).unwrap();
            let plain = url.replacen("rediss", "redis", 1);
            let server = parameters.add_to(plain.into_connection_info().unwrap());
            let settings = server.redis_settings();
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let login = (owned(settings.username()), owned(settings.password()));
            (login.0, login.1, settings.db())
        };
        let expected = (Some("ann".into()), Some("p&w d".into()), 3);
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
        assert_eq!(read("redis://h?"), (None, None, 0));
    }

    /// Tests all combinations of some parts: `redis` parses exactly the URLs that pass, and the
    /// faults of the others contain no secret.
    #[test]
    fn exactly_what_redis_reads_passes() {
        let log_ins = [
            "",
            "@",
            "sesam@",
            ":sesam@",
            "u:ses@am@",
            "u:sesam%ff@",
            "u:1/sesam@",
            "u:sesam",
        ];
        let hosts = [
            "", "h", "h.h_h-h", "[::1]", "[::1", "::1", "a b", "0.0.0.0", "[::]", "h^sesam",
        ];
        let ports = ["", ":", ":1", ":65535", ":65536", ":x", ":1x", ":-1"];
        let paths = [
            "",
            "/",
            "/0/",
            "/7",
            "/x",
            "/7/7",
            "?protocol=3",
            "/1?protocol=x",
            "?a@b",
        ];
        let mut passed = 0;
        for scheme in ["redis://", "valkey://", "redis:", "http://", ""] {
            for log_in in log_ins {
                for host in hosts {
                    for (port, path) in ports.iter().flat_map(|port| paths.map(|path| (port, path)))
                    {
                        let url = format!("{scheme}{log_in}{host}{port}{path}");
                        let found = check(&url, false);
                        if let Err(fault) = &found
                            && log_in.contains("sesam")
                        {
                            let text = format!("{fault:?}");
                            assert!(!text.contains("sesam"), "{url}: {text}");
                        }
                        // This check is stricter about these.
                        let stricter = path.contains('@') || log_in.contains('/');
                        if !stricter {
                            let read = url.as_str().into_connection_info().is_ok();
                            assert_eq!(found.is_ok(), read, "{url}: {found:?}");
                        }
                        passed += u32::from(found.is_ok());
                    }
                }
            }
        }
        assert!(passed > 100, "{passed}");
    }
}
