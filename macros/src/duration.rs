//! Durations in arguments. They are parsed when the user's crate is compiled.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, LitStr, Result};

use crate::arguments::{fail, literal};

/// The bounds of `leasehold::Lease`.
const SHORTEST_FIXED: Duration = Duration::from_millis(1);
const SHORTEST_RENEWED: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(1 << 53);

/// Parses the duration of a lease and checks its bounds.
pub(crate) fn lease(value: &Expr, fixed: bool) -> Result<Duration> {
    let text = text("lease", r#""30s""#, value)?;
    let lease = parse("lease", r#""30s""#, text)?;
    let (shortest, lease_kind) = if fixed {
        (SHORTEST_FIXED, "a fixed lease")
    } else {
        (SHORTEST_RENEWED, "a renewed lease")
    };
    if (shortest..=LONGEST).contains(&lease) {
        return Ok(lease);
    }
    fail(
        text,
        format!(
            "{lease_kind} is at least {shortest:?} and at most 2^53 ms; write `lease = \"30s\"`"
        ),
    )
}

/// Parses a wait; `None`: without a limit.
pub(crate) fn wait(value: &Expr) -> Result<Option<Duration>> {
    let example = r#""10s"` or `wait = "forever""#;
    let text = text("wait", example, value)?;
    match text.value().as_str() {
        "forever" => Ok(None),
        _ => parse("wait", example, text).map(Some),
    }
}

/// The string literal of a duration.
fn text<'a>(name: &str, example: &str, value: &'a Expr) -> Result<&'a LitStr> {
    literal(value).map_or_else(
        || {
            fail(
                value,
                format!("`{name}` is a string with a duration; write `{name} = {example}`"),
            )
        },
        Ok,
    )
}

fn parse(name: &str, example: &str, text: &LitStr) -> Result<Duration> {
    let value = text.value();
    humantime::parse_duration(&value).or_else(|error| {
        fail(
            text,
            format!(
                "`{value}` is not a duration ({error}); \
                 write a number with a unit, as in `{name} = {example}`"
            ),
        )
    })
}

/// An expression of the duration for the generated code.
pub(crate) fn tokens(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Expr {
        syn::parse_quote!(#text)
    }

    #[test]
    fn a_lease_must_be_within_its_bounds() {
        let millis = Duration::from_millis;
        for (text, fixed, expected) in [
            ("30s", false, Some(millis(30_000))),
            ("1h 30m", false, Some(millis(5_400_000))),
            ("10ms", false, Some(millis(10))),
            ("9999us", false, None),
            ("1ms", true, Some(millis(1))),
            ("999us", true, None),
            ("0s", true, None),
            (
                "104249991days",
                true,
                Some(millis(104_249_991 * 86_400_000)),
            ),
            ("104249992days", true, None),
            ("30", false, None),
            ("", false, None),
            ("-1s", false, None),
            ("soon", false, None),
        ] {
            let lease = lease(&string(text), fixed).ok();
            assert_eq!(lease, expected, "{text:?}");
        }
    }

    #[test]
    fn a_wait_may_be_zero_or_unlimited() {
        for (text, expected) in [
            ("0s", Some(Some(Duration::ZERO))),
            ("10s", Some(Some(Duration::from_secs(10)))),
            ("forever", Some(None)),
            ("always", None),
            ("10", None),
        ] {
            assert_eq!(wait(&string(text)).ok(), expected, "{text:?}");
        }
    }
}
