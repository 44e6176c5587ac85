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

/// Describes a part of the URL. Does not show its text if that contains a secret.
pub(super) fn shown(part: &str, text: &str, secrets: &[&str]) -> String {
    let repeats = |secret: &&str| !secret.is_empty() && text.contains(secret);
    if secrets.iter().any(repeats) {
        format!("a {part} that is not shown, because it contains the user or the password")
    } else {
        format!("{part} {text:?}")
    }
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
