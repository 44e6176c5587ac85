//! The sources of the scripts: the files in `lua/`, with the shared files that they require.

use std::collections::HashSet;

/// The line of a script that requires `shared/NAME.lua` begins and ends with these.
const REQUIRE: (&str, &str) = ("-- require \"", "\"\n");

macro_rules! shared {
    ($($name:literal)+) => {
        /// The names and texts of the files with functions that several scripts use.
        pub(super) const SHARED: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../lua/shared/", $name, ".lua")))
        ),+];
    };
}

shared! {
    "copies" "end_wait" "fair_head" "hold_left" "holder_of" "kinds" "line" "line_of"
    "now_millis" "number_of" "once" "permit_line" "permits" "read_write" "remove_owner" "reserved"
    "set_lease" "tagged" "timeout_key" "waiters" "wrong_type"
}

/// Dragonfly reads this line at the beginning of a script. Without it, it refuses keys that are not
/// in KEYS. To other servers it is a comment.
const UNDECLARED_KEYS: &str = "--!df flags=allow-undeclared-keys\n";

/// The shared files that make names of such keys.
const MAKES_KEYS: [&str; 2] = ["line_of", "tagged"];

/// A script in which each shared file stands at the first line that requires it. Lua makes the
/// functions of a file in each call, so a script can have its shortest path before that line. The
/// local variables of that path must not hide what the shared file uses, such as `pcall`.
/// A line that requires an unknown file stays.
pub(super) fn joined(script: &str) -> String {
    let (mut joined, mut required) = (script.to_owned(), HashSet::new());
    while let Some((before, rest)) = joined.split_once(REQUIRE.0)
        && let Some((name, after)) = rest.split_once(REQUIRE.1)
        && let Some((name, text)) = SHARED.iter().find(|(shared, _)| *shared == name)
    {
        let text = if required.insert(name) { text } else { "" };
        joined = [before, text, after].concat();
    }
    match MAKES_KEYS.iter().any(|name| required.contains(name)) {
        true => [UNDECLARED_KEYS, &joined].concat(),
        false => joined,
    }
}
