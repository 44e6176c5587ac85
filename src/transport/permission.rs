//! Whether an error reply reports a missing permission, and which.

use redis::RedisError;

use crate::error::Permission;

/// Every error reply to a script that called a forbidden command contains one of these: first Redis
/// 7.2 and Valkey, then Redis 6 and 7.0. Its code is `ERR`.
const IN_SCRIPTS: [&str; 2] = ["ACL failure in script: ", "The user executing the script "];

/// The phrases that tell the kind of permission, of all versions. They begin after the user name,
/// which newer versions write.
const WORDS: [(&str, Permission); 10] = [
    (" access one of the keys used", Permission::Key),
    (" access at least one of the keys", Permission::Key),
    (" access a key", Permission::Key),
    (" access one of the channels used", Permission::Channel),
    (" publish to the channel", Permission::Channel),
    (" access a channel", Permission::Channel),
    (" access database", Permission::Database),
    (" run this command", Permission::Command(None)),
    (" permissions for the command", Permission::Command(None)),
    (" run the '", Permission::Command(None)),
];

/// The permission that the user lacks, if this is why the server refused.
pub(crate) fn missing_permission(error: &RedisError) -> Option<Permission> {
    let text = error.detail().unwrap_or_default();
    let in_script = IN_SCRIPTS.iter().any(|words| text.contains(words));
    if error.code() != Some("NOPERM") && !in_script {
        return None;
    }
    let command = || {
        let (_, rest) = text.split_once(" run the '")?;
        let (command, _) = rest.split_once('\'')?;
        Some(Permission::Command(Some(command.into())))
    };
    let known = || WORDS.iter().find(|(words, _)| text.contains(words));
    let permission = command().or_else(|| known().map(|(_, permission)| permission.clone()));
    Some(permission.unwrap_or(Permission::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::retry_action::RetryAction;
    use crate::transport::tests::refusal;

    /// The missing permission, and a reply of Redis 6.0, 6.2, 7.0, 7.2 to 8 or of Valkey 8 to 9.1,
    /// to a command or to a script. Words with a `#` stand for texts that several replies have.
    const REPLIES: &str = "
hset: NOPERM this user has no permissions to run the 'hset' command or its subcommand
hset: NOPERM this user has no permissions to run the 'hset' command
cluster|slots: NOPERM this user has no permissions to run the 'cluster|slots' command
cluster|slots: NOPERM User key has no permissions to run the 'cluster|slots' command
KEY: NOPERM this user has no permissions to access one of the keys used as arguments
KEY: NOPERM No permissions to access a key
CHANNEL: NOPERM this user has no permissions to access one of the channels used as arguments
CHANNEL: NOPERM No permissions to access a channel
DATABASE: NOPERM No permissions to access database
UNKNOWN: NOPERM something new
UNKNOWN: NOPERM
COMMAND: ERR #WRAPPED #USER can't run this command or subcommand
KEY: ERR #WRAPPED #USER #NO_KEY
COMMAND: ERR #USER can't run this command or subcommand #POSITION
KEY: ERR #USER #NO_KEY #POSITION
CHANNEL: ERR #USER can't publish to the channel mentioned in the command #POSITION
COMMAND: ERR #USER lacking the permissions for the command #POSITION
hset: ERR ACL failure in script: User w has no permissions to run the 'hset' command #POSITION
KEY: ERR ACL failure in script: No permissions to access a key #POSITION
CHANNEL: ERR ACL failure in script: No permissions to access a channel #POSITION
DATABASE: ERR ACL failure in script: No permissions to access database #POSITION
none: ERR Unknown Redis command called from script
none: ERR wrong number of arguments for 'hset' command
none: WRONGTYPE Operation against a key holding the wrong kind of value
none: NOAUTH Authentication required.";

    #[test]
    fn the_missing_permission_is_known_by_the_words_of_all_versions() {
        let wrapped = "Error running script (call to f_8a2f41): @user_script:4: @user_script: 4:";
        let no_key = "can't access at least one of the keys mentioned in the command arguments";
        for row in REPLIES.trim().lines() {
            let (permission, line) = row.split_once(": ").unwrap();
            let line = line
                .replace("#WRAPPED", wrapped)
                .replace("#USER", "The user executing the script")
                .replace("#NO_KEY", no_key)
                .replace("#POSITION", "script: 8a2f41, on @user_script:4.");
            let expected = match permission {
                "none" => None,
                "KEY" => Some(Permission::Key),
                "CHANNEL" => Some(Permission::Channel),
                "DATABASE" => Some(Permission::Database),
                "UNKNOWN" => Some(Permission::Unknown),
                "COMMAND" => Some(Permission::Command(None)),
                name => Some(Permission::Command(Some(name.into()))),
            };
            let error = refusal(&line);
            assert_eq!(missing_permission(&error), expected, "{line}");
            if expected.is_some() {
                assert_eq!(RetryAction::on(&error), RetryAction::Fail, "{line}");
            }
        }
    }

    #[test]
    fn a_failure_that_is_no_reply_is_about_no_permission() {
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(missing_permission(&error.into()), None);
    }
}
