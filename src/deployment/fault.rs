//! Why a URL is invalid. The text of a [`Fault`] never contains the user or the password of the
//! URL.

use percent_encoding::percent_decode_str;

/// Why a URL is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The invalid part, and its text.
    pub(super) part: String,
    pub(super) rule: String,
}

pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

pub(super) fn fault<T>(part: impl Into<String>, rule: impl Into<String>) -> Result<T> {
    let (part, rule) = (part.into(), rule.into());
    Err(Fault { part, rule })
}

/// Where the user and the password belong, for the rules that a misplaced one breaks.
pub(super) const LOG_IN: &str = "a user and a password stand before the host, as in \
                                 redis://user:password@host, or after a ?, as in \
                                 redis://host?user=..&pass=..";

/// A longer number may be a password.
const LONGEST_NUMBER: usize = 6;

/// True for a text that can be shown, because it is a number and no password.
pub(super) fn is_number(text: &str) -> bool {
    (1..=LONGEST_NUMBER).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Describes a part of the URL that has to be a number. Other text may be a password in the wrong
/// place, so it is not shown.
pub(super) fn shown(part: &str, text: &str, secrets: &[&str]) -> String {
    let repeats = |secret: &&str| !secret.is_empty() && text.contains(secret);
    if is_number(text) && !secrets.iter().any(repeats) {
        format!("{part} {text:?}")
    } else {
        format!("a {part} that is not shown, because it may be a password")
    }
}

/// Fails for a host with characters that no host has: with `&pass=..` or `,password=..` behind it,
/// for example. Every message about the server would show it.
pub(super) fn check_host(host: &str) -> Result<()> {
    if host
        .chars()
        .all(|c| c.is_alphanumeric() || "-._".contains(c))
    {
        return Ok(());
    }
    fault(
        "a host that is not shown, because it may contain a password",
        format!("a host has letters, digits, dots, hyphens and underscores only; {LOG_IN}"),
    )
}

/// The text without its percent-encoding; `None` if it is empty.
pub(super) fn decoded(part: &str, text: &str) -> Result<Option<String>> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty())),
        Err(_) => fault(
            format!("a {part} that is not UTF-8"),
            "percent-encoded bytes must be UTF-8; write %25 for a %",
        ),
    }
}
