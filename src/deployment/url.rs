//! Checks a URL part by part, because the errors of `redis` do not name the invalid part. Pure. The
//! text of a [`Fault`] never contains the user or the password of the URL.

use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;

const TCP: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];
const UNIX: [&str; 3] = ["redis+unix", "valkey+unix", "unix"];

/// A longer number after a colon may be a password, so it is not shown as a port.
const LONGEST_PORT: usize = 6;

/// Why a URL is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The invalid part, and its text.
    pub(super) part: String,
    pub(super) rule: String,
}

type Result<T, E = Fault> = std::result::Result<T, E>;

fn fault<T>(part: impl Into<String>, rule: impl Into<String>) -> Result<T> {
    let (part, rule) = (part.into(), rule.into());
    Err(Fault { part, rule })
}

/// Checks a URL. `sockets`: the URL may name a Unix socket.
pub(super) fn check(url: &str, sockets: bool) -> Result<()> {
    let form = if sockets {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for \
         TLS, or redis+unix:///path/to/socket"
    } else {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for TLS"
    };
    check_control_characters(url, form)?;
    let (scheme, rest) = split_scheme(url, form)?;
    if UNIX.contains(&&*scheme) {
        return check_socket(&scheme, rest);
    }
    if !TCP.contains(&&*scheme) {
        return fault(format!("scheme {scheme:?}"), form);
    }
    match rest.strip_prefix("//") {
        Some(rest) => check_tcp(rest, form),
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

/// Describes a part of the URL. Does not show its text if that contains a secret.
fn shown(part: &str, text: &str, secrets: &[&str]) -> String {
    let repeats = |secret: &&str| !secret.is_empty() && text.contains(secret);
    if secrets.iter().any(repeats) {
        format!("a {part} that is not shown, because it contains the user or the password")
    } else {
        format!("{part} {text:?}")
    }
}

/// `[user[:password]@]host[:port][/database][?settings]`.
fn check_tcp(rest: &str, form: &str) -> Result<()> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        let rule = "in a user or a password, write %2F for /, %3F for ?, and %23 for #";
        return fault("a /, ? or # before the @", rule);
    }
    let (log_in, address) = match authority.rsplit_once('@') {
        Some((log_in, address)) => (Some(log_in), address),
        None => (None, authority),
    };
    let (user, password) = log_in.map_or(("", ""), |it| it.split_once(':').unwrap_or((it, "")));
    for (part, text) in [("user", user), ("password", password)] {
        if percent_decode_str(text).decode_utf8().is_err() {
            let rule = "percent-encoded bytes must be UTF-8; write %25 for a %";
            return fault(format!("a {part} that is not UTF-8"), rule);
        }
    }
    let secrets = [user, password];
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
    let end = tail.find(['?', '#']).unwrap_or(tail.len());
    let (path, settings) = tail.split_at(end);
    let database = path.trim_matches('/');
    if !database.is_empty() {
        check_database(database, &secrets)?;
    }
    check_protocol(settings, &secrets)
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

fn check_database(text: &str, secrets: &[&str]) -> Result<()> {
    if text.parse::<i64>().is_ok_and(|number| number >= 0) {
        return Ok(());
    }
    let rule = "a database must be a whole number; it is 0 if it is left out";
    fault(shown("database", text, secrets), rule)
}

/// Checks `?protocol=..`, because `redis` does. This crate always uses RESP2.
fn check_protocol(settings: &str, secrets: &[&str]) -> Result<()> {
    match setting(settings, "protocol") {
        None | Some("2" | "3" | "resp2" | "resp3") => Ok(()),
        Some(other) => fault(
            shown("protocol", other, secrets),
            "a protocol must be 2 or 3",
        ),
    }
}

/// The value in `?name=value&..`. The last one counts, as in `redis`.
fn setting<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    let (settings, _) = settings.split_once('#').unwrap_or((settings, ""));
    let pairs = settings.strip_prefix('?')?.split('&');
    let mut values = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    values.next_back()
}

/// Checks the part after the colon of `scheme:///path[?db=..&user=..&pass=..]`.
fn check_socket(scheme: &str, rest: &str) -> Result<()> {
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (path, settings) = rest.split_at(end);
    let path = match path.strip_prefix("//") {
        Some(path) => path.strip_prefix("localhost").unwrap_or(path),
        None => path,
    };
    if !path.starts_with('/') {
        let part = if path.is_empty() {
            "no path"
        } else {
            "a path that does not begin with /"
        };
        return fault(part, format!("write {scheme}:///path/to/socket"));
    }
    let secrets = ["user", "pass"].map(|name| setting(settings, name).unwrap_or_default());
    if let Some(database) = setting(settings, "db") {
        check_database(database, &secrets)?;
    }
    check_protocol(settings, &secrets)
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
        ] {
            let found = check(url, true).unwrap_err();
            assert_eq!(found.part, part, "{url:?}");
        }
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
