//! Errors of commands in scripts, as Redis before version 7 writes them.
//!
//! Since version 7, such an error has the code that the command alone would get. Before, the code
//! is in the middle of the text, behind the position in the script, or there is none.

/// The error line of version 7 for the error line of an older version, both without the minus.
/// `None` for every other line.
pub(super) fn of_version_7(line: &str) -> Option<String> {
    // Raised by `redis.call`. Other errors come from `redis.pcall`, and the script returned them.
    let raised = line.strip_prefix("ERR Error running script (call to ");
    let raised = raised.and_then(|rest| Some(rest.split_once("): ")?.1));
    let mut text = raised.unwrap_or(line);
    // `redis.call` adds a second position.
    while let Some(behind) = behind_position(text) {
        text = behind;
    }
    if text.len() == line.len() {
        return None;
    }
    let text = text.trim_end();
    let text = text.strip_prefix('-').unwrap_or(text);
    let code = text.split(' ').next().unwrap_or_default();
    let has_code = !code.is_empty() && code.bytes().all(|letter| letter.is_ascii_uppercase());
    Some(if has_code {
        text.into()
    } else {
        // Version 7 ends the text with the position.
        format!("ERR {text} on @user_script")
    })
}

/// What follows `@user_script:7: ` or `@user_script: 7: `.
fn behind_position(text: &str) -> Option<&str> {
    let (number, behind) = text.strip_prefix("@user_script:")?.split_once(": ")?;
    let number = number.trim_start();
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of Redis 5.0.6 and 6.2.14.
    #[test]
    fn the_code_of_the_command_is_found() {
        let raised = "ERR Error running script (call to f_8a2f41): @user_script:1:";
        let read_only = "READONLY You can't write against a read only replica.";
        for (line, expected) in [
            // The text of 5.0 ends in a line feed, which Redis replaces by spaces.
            (
                format!("@user_script: 18: -{read_only}  "),
                read_only.into(),
            ),
            (
                format!("{raised} @user_script: 1: -{read_only}"),
                read_only.into(),
            ),
            (
                format!("{raised} WRONGTYPE Operation against a key"),
                "WRONGTYPE Operation against a key".into(),
            ),
            (
                "@user_script: 3: Script attempted to access a non local key".into(),
                "ERR Script attempted to access a non local key on @user_script".into(),
            ),
            (
                format!("{raised} user_script:1: attempt to call a nil value"),
                "ERR user_script:1: attempt to call a nil value on @user_script".to_owned(),
            ),
        ] {
            assert_eq!(of_version_7(&line), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "ERR Error running script",
            "@user_script: -READONLY You can't write",
            "@user_script: x: -READONLY You can't write",
            "ERR user_script:1: attempt to call a nil value script: 8a2f41, on @user_script:1.",
            "",
        ] {
            assert_eq!(of_version_7(line), None, "{line}");
        }
    }
}
