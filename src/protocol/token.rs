//! The text that stands for a hold which a guard has given away: fields separated by dots, and a
//! sum that shows whether all of it is there. All characters can stand in a URL. It is a secret, so
//! no error and no output contains it. The number in its owner id is random, so that no client can
//! guess it. A token with the owner id of a lock that was not given away is refused.
//!
//! | field | as text |
//! |---|---|
//! | format and version | `leasehold1` |
//! | kind | its name |
//! | lease | its milliseconds |
//! | renewals | `fixed`, `renewed`, how many are left, or `for` and milliseconds |
//! | kept | for how many milliseconds Redis may keep the lock, which may have been extended |
//! | fencing token | the number; 0 without one |
//! | owner id | with `_` for the colon |
//! | name | in hexadecimal digits |
//! | sum | the first eight digits of the SHA-1 of what is before it |

use std::time::Duration;

use super::{Kind, PERMITS, kinds};
use crate::base::OwnerId;
use crate::error::{Error, Result};
use crate::lease::{Renewals, Terms, whole_millis};

const FORMAT: &str = "leasehold1";

/// A hold that was given away. Without `Debug`, because it is a secret.
pub(crate) struct Token {
    pub(crate) kind: &'static Kind,
    pub(crate) name: String,
    /// The owner id that has the lock in Redis.
    pub(crate) owner: OwnerId,
    pub(crate) fencing: Option<u64>,
    pub(crate) terms: Terms,
    /// For how long Redis may keep the lock, also if no client adopts it.
    pub(crate) kept: Duration,
}

fn sum(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()[..8].into()
}

fn decoded(hex: &str) -> Option<String> {
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<_> = hex.as_bytes().chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

impl Token {
    pub(crate) fn text(&self) -> String {
        let renewals = match self.terms.renewals {
            Renewals::None => "fixed".into(),
            Renewals::Left(left) => left.to_string(),
            Renewals::For(time) => format!("for{}", time.as_millis()),
            Renewals::Until(_) | Renewals::Unlimited => "renewed".into(),
        };
        let (kind, millis) = (self.kind.name, self.terms.millis);
        let kept = self.kept.as_millis();
        let fencing = self.fencing.unwrap_or_default();
        let owner = self.owner.as_str().replace(':', "_");
        let name = self.name.bytes().map(|byte| format!("{byte:02x}"));
        let name: String = name.collect();
        let text = format!("{FORMAT}.{kind}.{millis}.{renewals}.{kept}.{fencing}.{owner}.{name}");
        format!("{text}.{}", sum(&text))
    }

    /// The error does not contain the text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let invalid = |rule: &str| Error::argument("token", "invalid", rule);
        let whole = text.rsplit_once('.');
        let whole = whole.filter(|(text, last)| sum(text) == *last);
        let (text, _) = whole.ok_or_else(|| invalid("a part of it is missing or changed"))?;
        Self::of_fields(text).ok_or_else(|| invalid("another version of this crate has made it"))
    }

    fn of_fields(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('.').collect();
        let [FORMAT, kind, millis, renewals, kept, fencing, owner, name] = fields[..] else {
            return None;
        };
        let kind = kinds().find(|one| one.name == kind)?;
        let owner = owner.replace('_', ":");
        let millis = whole_millis(Duration::from_millis(millis.parse().ok()?));
        let renewals = match (renewals, renewals.strip_prefix("for")) {
            ("fixed", _) => Renewals::None,
            ("renewed", _) => Renewals::Unlimited,
            (_, Some(time)) => Renewals::For(Duration::from_millis(time.parse().ok()?)),
            (left, None) => Renewals::Left(left.parse().ok()?),
        };
        let fencing = fencing.parse().ok()?;
        let is_permit = *kind == PERMITS;
        Some(Self {
            kind,
            name: decoded(name)?,
            owner: OwnerId::parse(&owner)
                .filter(|id| id.is_secret() && owner.contains(':') != is_permit)?,
            fencing: kind.has_tokens.then_some(fencing),
            terms: Terms {
                millis: millis.ok()?,
                renewals,
            },
            kept: Duration::from_millis(kept.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::LOCKS;
    use proptest::prelude::*;

    const CLIENT: &str = "6ba7b810-9dad-81d1-80b4-00c04fd430c8";

    fn token(kind: &'static Kind, name: &str, renewals: Renewals) -> Token {
        Token {
            kind,
            name: name.into(),
            owner: (kind.new_owner)(CLIENT).with_secret_name().split().0,
            fencing: kind.has_tokens.then_some(1_731_000_000_000_000),
            terms: Terms {
                millis: 30_000,
                renewals,
            },
            kept: Duration::from_millis(3_600_001),
        }
    }

    /// With the sum of a changed text.
    fn changed(text: &str, from: &str, to: &str) -> String {
        let (text, _) = text.rsplit_once('.').unwrap();
        let text = text.replace(from, to);
        let sum = sum(&text);
        text + "." + &sum
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for (kind, renewals) in kinds().zip([
            Renewals::None,
            Renewals::Left(0),
            Renewals::Left(7),
            Renewals::Unlimited,
            Renewals::For(Duration::from_secs(7)),
            Renewals::None,
        ]) {
            for name in ["a", "ключ {7}.%/", &"n".repeat(512)] {
                let token = token(kind, name, renewals);
                let text = token.text();
                let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
                assert!(text.bytes().all(is_safe), "{text}");
                let read = Token::parse(&text).unwrap();
                assert_eq!((read.kind, read.name.as_str()), (kind, name));
                assert_eq!((read.owner, read.terms), (token.owner, token.terms));
                assert_eq!(read.kept, token.kept);
                assert_eq!(read.fencing, token.fencing);
                assert_eq!(read.fencing.is_some(), kind.name == "fenced");
            }
        }
    }

    #[test]
    fn what_is_no_whole_token_is_refused_without_its_text() {
        let text = token(LOCKS[0], "order", Renewals::None).text();
        let newer = changed(&text, "leasehold1", "leasehold2");
        let cut = (0..text.len()).map(|end| text[..end].to_owned());
        let odd = [
            changed(&text, "reentrant", "other"),
            changed(&text, "30000", "0"),
            changed(&text, "30000", "99999999999999999999"),
            changed(&text, "fixed", "-1"),
            changed(&text, "3600001", "-1"),
            changed(&text, "_", "_x"),
            changed(&text, "6ba7b810", "6ba7 b81"),
            changed(&text, "6f72646572", "ff"),
            changed(&text, ".fixed", ""),
            format!("{text}0"),
            "redis://user:password@host".into(),
        ];
        for text in cut.chain(odd).chain([newer.clone()]) {
            let error = Token::parse(&text).err().expect("it is no token");
            let error = error.to_string();
            assert!(error.starts_with("token is invalid: "), "{error}");
            assert!(error.len() < 90 && !error.contains("6ba7"), "{error}");
        }
        let error = Token::parse(&newer).err().unwrap().to_string();
        assert!(error.contains("another version"), "{error}");
        let error = Token::parse(&text[..text.len() - 1]).err().unwrap();
        assert!(error.to_string().contains("missing or changed"), "{error}");
    }

    /// Otherwise a client could take the hold of another one by its owner id, which it can guess.
    #[test]
    fn the_owner_id_of_a_hold_that_was_not_given_away_makes_no_token() {
        for kind in LOCKS {
            let token = token(kind, "order", Renewals::None);
            let owner = (kind.new_owner)(CLIENT);
            assert!(Token::parse(&Token { owner, ..token }.text()).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*", fields in "[a-z0-9._-]*") {
            let _ = Token::parse(&text);
            let _ = Token::parse(&changed(&format!("leasehold1.{fields}.0"), "~", ""));
        }
    }
}
