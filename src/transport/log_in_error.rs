//! Removes the password from the error of a log-in, whatever words the server uses.

use redis::{RedisError, Value};

use super::retry_action::RetryAction;

/// How many letters and digits of a password in succession are searched for. A server can cut off
/// what it repeats, and write other characters in another form.
const SEARCHED: usize = 4;

/// How much of what a server repeats has to be the beginning of the password, so that the text
/// before it is shown.
const BEGINNING: usize = 8;

/// The texts of Redis for a refused log-in, without their codes. They stay, also if the password is
/// a word in them, such as `password`.
const OF_REDIS: [&str; 5] = [
    "Authentication required.",
    "invalid username-password pair or user is disabled.",
    "AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?",
    // Before Redis 6.
    "invalid password",
    "Client sent AUTH, but no password is set",
];

/// What Redis writes before the arguments of an unknown command, which it repeats.
const ARGUMENTS: &str = ", with args beginning with";

/// This error, whose text ends before the arguments of the log-in and before the password.
pub(super) fn without_password(error: RedisError, password: &str) -> RedisError {
    let detail = error.detail().unwrap_or_default();
    let all = format!("{error} {error:?}");
    if OF_REDIS.contains(&detail) || !may_have(&all, password) && !all.contains(ARGUMENTS) {
        return error;
    }
    let end = password.char_indices().nth(BEGINNING).map(|(end, _)| end);
    let beginning = &password[..end.unwrap_or(password.len())];
    let mut shown = detail.split(ARGUMENTS).next().unwrap_or_default();
    if !beginning.is_empty() {
        shown = shown.split(beginning).next().unwrap_or_default();
    }
    if may_have(shown, password) {
        shown = "";
    }
    let shown = shown.trim_end();
    let text = format!("{shown} (the rest is not shown, because it can have the log-in)");
    // The code of a text without one is its first word.
    let is_secret = |code: &&str| may_have(code, password) || password.starts_with(*code);
    let code = error.code().filter(|code| !is_secret(code));
    let line = format!("-{} {text}\r\n", code.unwrap_or("ERR"));
    // The parser of the `redis` crate knows the kinds of error replies.
    let reply = RetryAction::is_reply(&error).then(|| redis::parse_redis_value(line.as_bytes()));
    let reply = reply.and_then(|reply| reply.and_then(Value::extract_error).err());
    reply.unwrap_or_else(|| (error.kind(), "the log-in failed", text).into())
}

/// True if the text may repeat a part of the password. A password without letters and digits may be
/// in any text.
fn may_have(text: &str, password: &str) -> bool {
    let words = || password.split(|one: char| !one.is_ascii_alphanumeric());
    let longest = words().map(str::len).max().unwrap_or_default();
    let length = longest.min(SEARCHED);
    if length == 0 {
        return !password.is_empty();
    }
    let mut parts = words().flat_map(|word| word.as_bytes().windows(length));
    parts.any(|part| {
        text.as_bytes()
            .windows(length)
            .any(|of_text| of_text == part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tests::refusal;
    use std::io;

    #[test]
    fn no_text_has_the_password_and_the_kind_of_error_stays() {
        let repeated = "a-token-that-the-server-repeats";
        for (error, shown) in [
            (
                refusal("ERR unknown command 'AUTH', with args beginning with: 'ann' 'a-tok"),
                "unknown command 'AUTH' (the rest",
            ),
            (
                refusal("ERR Unknown command AUTH ann a-token-t.."),
                "Unknown command AUTH ann (",
            ),
            (
                refusal(&format!("ERR invalid password {repeated}")),
                "invalid password (",
            ),
            (refusal(&format!("WRONGPASS {repeated}")), "WRONGPASS"),
            (refusal(repeated), "(the rest"),
            (refusal(&format!("LOADING {repeated}")), "BusyLoading"),
            (io::Error::other(repeated).into(), "the log-in failed"),
        ] {
            let action = RetryAction::on(&error);
            let hidden = without_password(error, repeated);
            let texts = format!("{hidden} {hidden:?}");
            assert!(!texts.contains("a-tok"), "{texts}");
            assert!(texts.contains(shown), "no {shown:?}: {texts}");
            assert_eq!(RetryAction::on(&hidden), action, "{texts}");
        }
    }

    #[test]
    fn a_password_is_found_whose_characters_the_server_escapes() {
        for (password, line, secret) in [
            (
                r#"se"s\am-and-more"#,
                r#"ERR no account "se\"s\\am-and-more""#,
                "and-",
            ),
            (
                r#"a b"c'S3cr3t\x"#,
                r#"ERR no account "a b\"c'S3cr3t\\x""#,
                "S3cr",
            ),
            ("pä$$wort", r"ERR no account 'p\u{e4}$$wort'", "wort"),
            ("Sesame open", "Sesame open is no password", "Sesame"),
            ("$$$$", "ERR no account $$$$", "$$"),
        ] {
            let texts = format!("{0} {0:?}", without_password(refusal(line), password));
            assert!(!texts.contains(secret), "{texts}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for line in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "ERR invalid password",
            "ERR Client sent AUTH, but no password is set",
            "LOADING Redis is loading the dataset in memory",
        ] {
            let error = refusal(line);
            let hidden = without_password(error.clone(), "password");
            assert_eq!(hidden.to_string(), error.to_string());
        }
        let error = refusal("ERR unknown");
        assert_eq!(
            without_password(error.clone(), "").to_string(),
            error.to_string()
        );
    }
}
