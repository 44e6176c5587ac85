//! Removes the password from the error of a log-in, whatever words the server uses.

use redis::{RedisError, Value};

use super::retry_action::RetryAction;

/// How many characters of a password are searched for. A server can cut off what it repeats.
const SEARCHED: usize = 8;

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
    let end = password.char_indices().nth(SEARCHED).map(|(end, _)| end);
    let secret = &password[..end.unwrap_or(password.len())];
    // A server can write a backslash before a character that it repeats.
    let plain = |text: &str| text.replace('\\', "");
    let has_secret = |text: &str| !secret.is_empty() && plain(text).contains(&plain(secret));
    let detail = error.detail().unwrap_or_default();
    let all = format!("{error} {error:?}");
    if OF_REDIS.contains(&detail) || !has_secret(&all) && !all.contains(ARGUMENTS) {
        return error;
    }
    let mut shown = detail.split(ARGUMENTS).next().unwrap_or_default();
    if has_secret(shown) {
        shown = shown.split_once(secret).map_or("", |(before, _)| before);
    }
    let shown = shown.trim_end();
    let text = format!("{shown} (the rest is not shown, because it can have the log-in)");
    let code = error.code().filter(|code| !has_secret(code));
    let line = format!("-{} {text}\r\n", code.unwrap_or("ERR"));
    // The parser of the `redis` crate knows the kinds of error replies.
    let reply = RetryAction::is_reply(&error).then(|| redis::parse_redis_value(line.as_bytes()));
    let reply = reply.and_then(|reply| reply.and_then(Value::extract_error).err());
    reply.unwrap_or_else(|| (error.kind(), "the log-in failed", text).into())
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
        let password = r#"se"s\am-and-more"#;
        let error = refusal(r#"ERR no account "se\"s\\am-and-more""#);
        let texts = format!("{0} {0:?}", without_password(error, password));
        assert!(!texts.contains("am-and"), "{texts}");
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
