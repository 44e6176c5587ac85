//! The name of a client's connections in the `CLIENT LIST` of Redis, which tells in which process
//! the client is.

use uuid::Uuid;

/// The first part of every name. The others are the id of the client, the host and the process id,
/// with a colon before each.
const PREFIX: &str = "leasehold:";

/// The name for the client with this id in this process.
pub(crate) fn of_this_process(client: &Uuid) -> String {
    let (host, process) = (cleaned(&host()), std::process::id());
    format!("{PREFIX}{client}:{host}:{process}")
}

/// The id of the client, the host and the process id; `None` for any other name.
pub(crate) fn parse(name: &str) -> Option<(&str, &str, u32)> {
    let (client, rest) = name.strip_prefix(PREFIX)?.split_once(':')?;
    let (host, process) = rest.split_once(':')?;
    Some((client, host, process.parse().ok()?))
}

/// Redis refuses names with spaces and control characters.
fn cleaned(host: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let kept = |c| if is_kept(c) { c } else { '_' };
    let host: String = host.chars().map(kept).collect();
    if host.is_empty() {
        return "unknown".into();
    }
    host
}

#[cfg(unix)]
fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_are_not_parsed() {
        for name in [
            "",
            "redisson",
            "leasehold:",
            "leasehold:uuid:host",
            "leasehold:uuid:host:",
            "leasehold:uuid:host:no-number",
            "leasehold:uuid:host:1:2",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_host_may_have_any_characters() {
        assert_eq!(cleaned("web-3.example_1"), "web-3.example_1");
        assert_eq!(cleaned("my mac:1\n"), "my_mac_1_");
        assert_eq!(cleaned("größe"), "gr__e");
        assert_eq!(cleaned(""), "unknown");
    }
}
