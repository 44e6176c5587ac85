//! Names of locks as arguments and as text. A name is UTF-8, as this crate and Redisson write it.
//!
//! A name that cannot be shown as it is has the form `$'..'`, which bash and zsh read: `\xNN` is a
//! byte, `\\` a backslash, and `\'` a quote. The commands that look at locks read this form, too,
//! so what `list` prints can be passed on with and without a shell. A name that begins with `$'` is
//! always shown in this form, so that each text means one name.

/// The beginning of the quoted form.
const QUOTE: &str = "$'";

/// The name that an argument means: the quoted form, or the name itself.
pub(super) fn parse(argument: &str) -> Result<String, String> {
    match argument.strip_prefix(QUOTE) {
        None => Ok(argument.into()),
        Some(rest) => unquoted(rest.as_bytes()).ok_or_else(|| {
            r"after $' write \xNN for a byte of UTF-8, \\ for a backslash, \' for a quote, and ' at the end"
                .into()
        }),
    }
}

/// What stands before the quote at the end; `None` if it is not valid.
fn unquoted(text: &[u8]) -> Option<String> {
    let mut rest = text.strip_suffix(b"'")?.iter();
    let mut name = Vec::new();
    while let Some(&byte) = rest.next() {
        name.push(match byte {
            b'\'' => return None,
            b'\\' => match *rest.next()? {
                b'x' => {
                    let mut digit = || char::from(*rest.next()?).to_digit(16);
                    u8::try_from(digit()? * 16 + digit()?).ok()?
                }
                escaped @ (b'\\' | b'\'') => escaped,
                _ => return None,
            },
            byte => byte,
        });
    }
    String::from_utf8(name).ok()
}

/// A name for messages: quoted if it could control a terminal or be misread.
pub(super) fn shown(name: &str) -> String {
    // Escapes for Rust exactly what is not printable, and quotes and backslashes.
    let is_printable = format!("{name:?}").len() == name.len() + 2;
    let is_one_word = !name.is_empty() && !name.contains(char::is_whitespace);
    if is_printable && is_one_word && !name.starts_with(QUOTE) {
        return name.into();
    }
    let mut quoted = String::from(QUOTE);
    for char in name.chars() {
        match char {
            '\\' | '\'' => quoted.extend(['\\', char]),
            '"' => quoted.push(char),
            _ if char.escape_debug().len() == 1 => quoted.push(char),
            _ => {
                for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                    quoted += &format!("\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_cannot_control_a_terminal() {
        for (name, expected) in [
            ("order:pay", "order:pay"),
            ("größe☃", "größe☃"),
            ("it's", "it's"),
            ("", "$''"),
            ("two words", "$'two words'"),
            ("\"", "$'\"'"),
            (r"a\b", r"$'a\\b'"),
            ("$'", r"$'$\''"),
            ("é\n", r"$'é\x0a'"),
            ("\x1b[2J", r"$'\x1b[2J'"),
            ("\u{9b}2J", r"$'\xc2\x9b2J'"),
            ("\u{202e}live", r"$'\xe2\x80\xaelive'"),
        ] {
            assert_eq!(shown(name), expected);
            assert_eq!(parse(expected).as_deref(), Ok(name));
        }
    }

    #[test]
    fn only_the_quoted_form_has_escapes() {
        for (argument, expected) in [
            (r"a\x41", Some(r"a\x41")),
            (r"$'a\x41'", Some("aA")),
            (r"$'\xc3\xa9'", Some("é")),
            (r"$'caf\xe9'", None),
            ("$'", None),
            ("$'a", None),
            ("$'a'b'", None),
            (r"$'a\'", None),
            (r"$'\n'", None),
            (r"$'\x4'", None),
            (r"$'\xg0'", None),
        ] {
            assert_eq!(parse(argument).ok().as_deref(), expected, "{argument:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_means_the_name(name in any::<String>()) {
            let shown = shown(&name);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert_eq!(parse(&shown), Ok(name));
        }
    }
}
