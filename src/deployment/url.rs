//! Parses a URL part by part, because the errors of `redis` do not name the invalid part. Pure.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use redis::ConnectionAddr;

use super::Server;
use super::fault::{LOG_IN, Result, check_host, decoded, fault, is_number, shown};
use super::parameters::Parameters;

const TCP: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];
const UNIX: [&str; 3] = ["redis+unix", "valkey+unix", "unix"];

/// Parses a URL. `sockets`: the URL may name a Unix socket.
pub(super) fn parse(url: &str, sockets: bool) -> Result<Server> {
    let form = if sockets {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for \
         TLS, or redis+unix:///path/to/socket"
    } else {
        "a URL has the form redis://[user:password@]host[:port][/database], with rediss:// for TLS"
    };
    check_control_characters(url, form)?;
    let (scheme, rest) = split_scheme(url, form)?;
    let (address, parameters) = if UNIX.contains(&&*scheme) {
        let address = ConnectionAddr::Unix(socket(url, &scheme, rest, form)?);
        (address, Parameters::default().with_query(url)?)
    } else if !TCP.contains(&&*scheme) {
        return fault(format!("scheme {scheme:?}"), form);
    } else if let Some(rest) = rest.strip_prefix("//") {
        tcp(url, rest, form)?
    } else {
        return fault(format!("no // after the scheme {scheme:?}"), form);
    };
    let account = parameters.account()?;
    let with_tls = ["rediss", "valkeys"].contains(&&*scheme);
    if with_tls && rest.contains('#') {
        let rule = "certificates are always checked, so #insecure is not supported; set the \
                    authority to trust instead, and write %23 for a # in a password";
        return fault("a fragment, which begins with #", rule);
    }
    if redis::parse_redis_url(url).is_none() {
        return fault("not readable", form);
    }
    Ok(Server {
        address,
        account,
        with_tls,
    })
}

/// Refuses control characters, because `redis` silently drops newlines and tabs in a password.
fn check_control_characters(url: &str, form: &str) -> Result<()> {
    if url.is_empty() {
        return fault("empty", form);
    }
    let Some(found) = url.chars().find(|c| c.is_control()) else {
        return Ok(());
    };
    let rule =
        "remove it, or write it as %0A (newline), %0D or %09 (tab) if it is part of the password";
    fault(format!("the control character {found:?} inside"), rule)
}

/// Returns the scheme in lower case, and the text after its colon. `host:port` has no scheme.
fn split_scheme<'a>(url: &'a str, form: &str) -> Result<(String, &'a str)> {
    if let Some((scheme, rest)) = url.split_once(':') {
        let lower = scheme.to_ascii_lowercase();
        let is_known = TCP.contains(&&*lower) || UNIX.contains(&&*lower);
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(is_of_scheme);
        if is_known || is_scheme && rest.starts_with("//") {
            return Ok((lower, rest));
        }
    }
    // Other text is not shown, because it may contain a user or a password.
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(ip) => ip
            .strip_suffix(']')
            .is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty() && host.chars().all(is_of_name),
    };
    match url.rsplit_once(':') {
        Some((host, port)) if is_host(host) && is_number(port) => {
            fault("no scheme", format!("write redis://{url}"))
        }
        _ => fault("no scheme", form),
    }
}

/// Parses `[user[:password]@]host[:port][/database][?parameters]`, the `rest` of a URL.
fn tcp(url: &str, rest: &str, form: &str) -> Result<(ConnectionAddr, Parameters)> {
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
    let (host, port) = host_and_port(address, form)?;
    let is_whole = port.bytes().all(|b| b.is_ascii_digit());
    match port.parse() {
        _ if port.is_empty() => Ok((ConnectionAddr::Tcp(host, DEFAULT_PORT), parameters)),
        Ok(number) if is_whole && number > 0 => Ok((ConnectionAddr::Tcp(host, number), parameters)),
        _ => {
            let rule = format!("a port must be a whole number from 1 to 65535; {LOG_IN}");
            fault(shown("port", port, &secrets), rule)
        }
    }
}

const DEFAULT_PORT: u16 = 6379;

/// Returns the host, and the text of the port, which is empty if there is none.
fn host_and_port<'a>(address: &'a str, form: &str) -> Result<(String, &'a str)> {
    const BRACKETS: &str = "write an IPv6 address in brackets, as in redis://[::1]:6379";
    let bad = |host: &str, rule: &str| fault(format!("host {host:?}"), rule);
    if let Some(inner) = address.strip_prefix('[') {
        // The text after the bracket is empty, or begins with the colon of the port.
        let (inner, after) = inner.split_once(']').unwrap_or((inner, "]"));
        let port = after.strip_prefix(':').unwrap_or(after);
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) if after.is_empty() || after.starts_with(':') => match ip.is_unspecified() {
                true => bad(&address[..inner.len() + 2], WILDCARD),
                false => Ok((ip.to_string(), port)),
            },
            _ => fault("a host in brackets that is no IPv6 address", BRACKETS),
        };
    }
    if address.parse::<Ipv6Addr>().is_ok() {
        return bad(address, BRACKETS);
    }
    let (host, port) = address.split_once(':').unwrap_or((address, ""));
    match host {
        "" => fault("no host", form),
        "0.0.0.0" => bad(host, WILDCARD),
        _ => check_host(host).map(|()| (host.into(), port)),
    }
}

const WILDCARD: &str = "a client cannot connect to this address; use 127.0.0.1 for this machine";

/// The path in a URL `scheme:///path[?parameters]`, whose part after the colon is `rest`.
fn socket(url: &str, scheme: &str, rest: &str, form: &str) -> Result<PathBuf> {
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    let path = match path.strip_prefix("//") {
        Some(path) => path.strip_prefix("localhost").unwrap_or(path),
        None => path,
    };
    if !path.starts_with('/') {
        let (part, log_in) = match path {
            "" => ("no path", ""),
            _ if rest.contains('@') => ("an @ before the path", "?user=..&pass=.."),
            _ => ("a path that does not begin with /", ""),
        };
        return fault(part, format!("write {scheme}:///path/to/socket{log_in}"));
    }
    // What follows them may be a password. Every message about the server shows the path.
    if path.contains(['&', ';', ',', '=']) {
        let rule = format!(
            "write {scheme}:///path/to/socket?user=..&pass=..; in a path, write %26 for &, %3B \
             for ;, %2C for , and %3D for ="
        );
        return fault("one of & ; , = in the path", rule);
    }
    // Its percent-encoded bytes need not be UTF-8.
    match redis::parse_redis_url(url).and_then(|url| url.to_file_path().ok()) {
        Some(path) => Ok(path),
        None => fault("not readable", form),
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn an_invalid_part_is_named() {
        let port = "a port that is not shown, because it may be a password";
        let host = "a host that is not shown, because it may contain a password";
        let database = "a database that is not shown, because it may be a password";
        for (url, part) in [
            ("", "empty"),
            ("\u{feff}redis://h", "no scheme"),
            ("h:1", "no scheme"),
            ("://h", "no scheme"),
            ("1://h", "no scheme"),
            ("HTTP://h", "scheme \"http\""),
            ("redis:h", "no // after the scheme \"redis\""),
            ("redis://u:p@", "no host"),
            ("redis://u:p@h:70000", "port \"70000\""),
            ("redis://u:p@h:+1", port),
            ("redis://h:+1", port),
            ("redis://ann@h:sesam", port),
            ("redis://h/0&pass=sesam", database),
            ("redis://h/0,sesam", database),
            ("redis://h/pass=sesam", database),
            ("redis://h&pass=sesam", host),
            ("redis://h;pass=sesam:1", host),
            ("redis://h,password=sesam", host),
            ("redis://ann%3Asesam%40h", host),
            ("redis://h?protocol=sesam", "a protocol that is not known"),
            ("unix:///s&pass=sesam", "one of & ; , = in the path"),
            ("redis+unix://:sesam@/s", "an @ before the path"),
            (
                "redis://u:p@[::1%eth0]",
                "a host in brackets that is no IPv6 address",
            ),
            ("redis://[0::0]:1", "host \"[0::0]\""),
            ("redis://u:p@h/0/0", database),
            ("redis://u:p@h/-1", database),
            ("unix:run", "a path that does not begin with /"),
            ("unix:///s?db=x", database),
            ("redis://h?db=sesam", database),
            ("redis://h/2?db=3", "two different databases"),
            ("unix:///s?db=2&db=3", "two different databases"),
            ("redis://ann@h?user=bob", "two different users"),
            ("redis://:p@h?pass=q", "two different passwords"),
            ("redis://h?timeout=5s", "parameter \"timeout\""),
            ("rediss://h?DB=3", "parameter \"DB\""),
            ("unix:///s?pass=p&sesam", "a parameter that is not known"),
            ("redis://h?pass=p#sesam", "a # after the ?"),
            ("redis://h?pass=%ff", "a parameter that is not UTF-8"),
            ("rediss://h#insecure", "a fragment, which begins with #"),
            ("valkeys://h#", "a fragment, which begins with #"),
        ] {
            let found = parse(url, true).unwrap_err();
            assert_eq!(found.part, part, "{url:?}");
            assert!(!found.rule.contains("sesam"), "{url:?}: {}", found.rule);
        }
    }

    #[test]
    fn the_scheme_decides_about_tls() {
        for (url, with_tls) in [
            ("rediss://h", true),
            ("REDISS://u:p@h:1/2", true),
            ("valkeys://h", true),
            ("redis://h", false),
            ("redis://h#insecure", false),
            ("unix:///rediss://h", false),
        ] {
            assert_eq!(parse(url, true).unwrap().with_tls, with_tls, "{url}");
        }
    }

    #[test]
    fn the_path_of_a_socket_is_what_redis_reads() {
        for url in [
            "unix:///a%20b",
            "redis+unix:/a%ffb%26%3D?db=1",
            "unix://localhost/a/../b",
        ] {
            let read = url.into_connection_info().unwrap();
            assert_eq!(&parse(url, true).unwrap().address, read.addr(), "{url}");
        }
    }

    #[test]
    fn only_a_valid_address_without_a_scheme_is_repeated() {
        for (url, is_valid) in [("[::1]:6379", true), ("h:1", true), ("[::1:6379", false)] {
            let rule = parse(url, true).unwrap_err().rule;
            assert_eq!(rule == format!("write redis://{url}"), is_valid, "{rule}");
        }
    }

    #[test]
    fn parameters_mean_the_same_on_every_url() {
        let read = |url: &str| {
            let found = parse(url, true).unwrap().account;
            (found.username, found.password, found.database)
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
                        let found = parse(&url, false);
                        if let Err(fault) = &found
                            && log_in.contains("sesam")
                        {
                            let text = format!("{fault:?}");
                            assert!(!text.contains("sesam"), "{url}: {text}");
                        }
                        // This check is stricter about these.
                        let stricter = path.contains('@') || log_in.contains('/');
                        if !stricter {
                            let read = url.as_str().into_connection_info();
                            let address = |read: &redis::ConnectionInfo| read.addr().clone();
                            let read = read.as_ref().ok().map(address);
                            let found = found.as_ref().ok().map(|server| server.address.clone());
                            assert_eq!(found, read, "{url}");
                        }
                        passed += u32::from(found.is_ok());
                    }
                }
            }
        }
        assert!(passed > 100, "{passed}");
    }
}
