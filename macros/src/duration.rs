//! Durations in arguments. They are parsed when the user's crate is compiled.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Result};

use crate::literal::{fail, literal};

/// The shortest leases of `leasehold::Lease`, and the longest one.
const FIXED: Duration = Duration::from_millis(1);
const RENEWED: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(1 << 53);

/// Parses the duration of a lease and checks its bounds.
pub(crate) fn lease(value: &Expr, fixed: bool) -> Result<Duration> {
    within("lease", value, if fixed { FIXED } else { RENEWED })
}

/// Parses the time for which a lock is kept at least. It has the bounds of a fixed lease.
pub(crate) fn at_least(value: &Expr) -> Result<Duration> {
    within("at_least", value, FIXED)
}

fn within(name: &str, value: &Expr, shortest: Duration) -> Result<Duration> {
    let time = parse(name, r#""30s""#, value)?;
    if (shortest..=LONGEST).contains(&time) {
        return Ok(time);
    }
    let rule = format!("`{name}` is at least {shortest:?} and at most 2^53 ms");
    fail(value, format!("{rule}; write `{name} = \"30s\"`"))
}

/// Parses a wait. `Duration::MAX` is one without a limit.
pub(crate) fn wait(value: &Expr) -> Result<Duration> {
    if literal(value).is_some_and(|text| text.value() == "forever") {
        return Ok(Duration::MAX);
    }
    parse("wait", r#""10s"` or `wait = "forever""#, value)
}

fn parse(name: &str, example: &str, value: &Expr) -> Result<Duration> {
    let Some(text) = literal(value).map(|text| text.value()) else {
        let rule = "is a string with a duration; write";
        return fail(value, format!("`{name}` {rule} `{name} = {example}`"));
    };
    humantime::parse_duration(&text).or_else(|error| {
        let rule = "write a number with a unit, as in";
        let error = format!("`{text}` is not a duration ({error})");
        fail(value, format!("{error}; {rule} `{name} = {example}`"))
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
            ("0s", Some(Duration::ZERO)),
            ("10s", Some(Duration::from_secs(10))),
            ("forever", Some(Duration::MAX)),
            ("always", None),
            ("10", None),
        ] {
            assert_eq!(wait(&string(text)).ok(), expected, "{text:?}");
        }
    }
}
