//! Names of locks as arguments and as text. A name is bytes, as in Redis.
//!
//! A name that cannot be shown as it is has the form `$'..'`, which bash and zsh read: `\xNN` is a
//! byte, `\\` a backslash, and `\'` a quote. The commands that look at locks read this form, too,
//! so what `list` prints can be passed on with and without a shell. A name that begins with `$'` is
//! always shown in this form, so that each text means one name.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;

/// The beginning of the quoted form.
const QUOTE: &str = "$'";

/// The name of a lock, or a pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// From an argument: the quoted form, or the bytes of the name.
    pub(super) fn parse(argument: OsString) -> Result<Self, String> {
        let bytes = argument.into_encoded_bytes();
        match bytes.strip_prefix(QUOTE.as_bytes()) {
            None => Ok(Self(bytes)),
            Some(rest) => unquoted(rest).map(Self).ok_or_else(|| {
                r"after $' write \xNN for a byte, \\ for a backslash, \' for a quote, and ' at the end"
                    .into()
            }),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name, if a program of this crate or of Redisson can have it.
    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    pub(super) fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

/// For messages.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// What stands before the quote at the end; `None` if it is not valid.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
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
    Some(name)
}

/// A name for messages: quoted if it could control a terminal, be misread or is not UTF-8.
pub(super) fn shown(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    let is_plain = |text: &&str| {
        // Escapes for Rust exactly what is not printable, and quotes and backslashes.
        let is_printable = format!("{text:?}").len() == text.len() + 2;
        let is_one_word = !text.is_empty() && !text.contains(char::is_whitespace);
        is_printable && is_one_word && !text.starts_with(QUOTE)
    };
    if let Some(plain) = std::str::from_utf8(name).ok().filter(is_plain) {
        return plain.into();
    }
    let escaped = |bytes: &[u8]| -> String {
        let byte = |byte| format!("\\x{byte:02x}");
        bytes.iter().map(byte).collect()
    };
    let mut quoted = String::from(QUOTE);
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' | '\'' => quoted.extend(['\\', char]),
                '"' => quoted.push(char),
                _ if char.escape_debug().len() == 1 => quoted.push(char),
                _ => quoted += &escaped(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        quoted += &escaped(chunk.invalid());
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(argument: &[u8]) -> Option<Vec<u8>> {
        use std::os::unix::ffi::OsStringExt;
        let name = Name::parse(OsString::from_vec(argument.into()));
        name.ok().map(|name| name.0)
    }

    #[test]
    fn names_cannot_control_a_terminal() {
        for (name, expected) in [
            (&b"order:pay"[..], "order:pay"),
            ("größe☃".as_bytes(), "größe☃"),
            (b"it's", "it's"),
            (b"", "$''"),
            (b"two words", "$'two words'"),
            (b"\"", "$'\"'"),
            (br"a\b", r"$'a\\b'"),
            (b"$'", r"$'$\''"),
            (b"caf\xe9", r"$'caf\xe9'"),
            ("é\n".as_bytes(), r"$'é\x0a'"),
            (b"\x1b[2J", r"$'\x1b[2J'"),
            ("\u{9b}2J".as_bytes(), r"$'\xc2\x9b2J'"),
            ("\u{202e}live".as_bytes(), r"$'\xe2\x80\xaelive'"),
        ] {
            assert_eq!(shown(name), expected);
            assert_eq!(parse(expected.as_bytes()).as_deref(), Some(name));
        }
    }

    #[test]
    fn only_the_quoted_form_has_escapes() {
        for (argument, expected) in [
            (&br"a\x41"[..], Some(&br"a\x41"[..])),
            (b"caf\xe9", Some(b"caf\xe9")),
            (br"$'a\x41'", Some(b"aA")),
            (b"$'caf\xe9'", Some(b"caf\xe9")),
            (b"$'", None),
            (b"$'a", None),
            (b"$'a'b'", None),
            (br"$'a\'", None),
            (br"$'\n'", None),
            (br"$'\x4'", None),
            (br"$'\xg0'", None),
        ] {
            assert_eq!(parse(argument).as_deref(), expected, "{argument:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_means_the_name(name in any::<Vec<u8>>()) {
            let shown = shown(&name);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert_eq!(parse(shown.as_bytes()), Some(name));
        }
    }
}
