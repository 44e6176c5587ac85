//! Patterns of Redis, for names that the server cannot compare: those of semaphores, which are
//! found by another key.

/// True if the whole name matches the pattern: `*`, `?`, `[ab]`, `[^ab]`, `[a-z]`, and `\` before a
/// character that stands for itself. Works on bytes, like Redis.
pub(super) fn matches(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // Where to go on if the rest does not match: behind the last `*`, one byte later.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, name));
            continue;
        }
        let rest = match name.split_first() {
            None if pattern.is_empty() => return true,
            None => None,
            Some((&byte, after)) => one(pattern, byte).map(|rest| (rest, after)),
        };
        if let Some((pattern_rest, after)) = rest {
            (pattern, name) = (pattern_rest, after);
            continue;
        }
        match retry {
            Some((behind, [_, later @ ..])) => {
                (pattern, name) = (behind, later);
                retry = Some((behind, later));
            }
            _ => return false,
        }
    }
}

/// The rest of the pattern if its first element matches the byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'\\', exact, rest @ ..] => (*exact == byte).then_some(rest),
        [b'[', rest @ ..] => {
            let (is_among, rest) = set(rest, byte);
            is_among.then_some(rest)
        }
        [exact, rest @ ..] => (*exact == byte).then_some(rest),
    }
}

/// Whether the byte is in the set, and the pattern behind the set. A set may lack its end.
fn set(mut pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let is_negative = pattern.first() == Some(&b'^');
    if is_negative {
        pattern = &pattern[1..];
    }
    let mut is_among = false;
    let rest = loop {
        match pattern {
            [] => break pattern,
            [b']', rest @ ..] => break rest,
            [b'\\', exact, rest @ ..] => {
                is_among |= *exact == byte;
                pattern = rest;
            }
            [from, b'-', to, rest @ ..] => {
                let (from, to) = (from.min(to), from.max(to));
                is_among |= (from..=to).contains(&&byte);
                pattern = rest;
            }
            [exact, rest @ ..] => {
                is_among |= *exact == byte;
                pattern = rest;
            }
        }
    };
    (is_among != is_negative, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies of Redis 7 to `SCAN 0 MATCH`, with one key of this name.
    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a", true),
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*b*d*", "abcd", true),
            ("*b*e*", "abcd", false),
            ("[ab]c", "bc", true),
            ("[^ab]c", "bc", false),
            ("[^ab]c", "cc", true),
            ("[a-c]", "b", true),
            ("[c-a]", "b", true),
            ("[a-c]", "d", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"[\]]", "]", true),
            ("[ab", "b", true),
            ("order:*:[0-9]", "order:pay:7", true),
        ] {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
