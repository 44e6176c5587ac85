//! The sources of the scripts: the files in `lua/`, with the shared files that they require.

use std::collections::HashSet;

/// The line of a script that requires `shared/NAME.lua` begins and ends with these.
const REQUIRE: (&str, &str) = ("-- require \"", "\"");

macro_rules! shared {
    ($($name:literal)+) => {
        /// The names and texts of the files with functions that several scripts use.
        pub(super) const SHARED: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../lua/shared/", $name, ".lua")))
        ),+];
    };
}

shared! {
    "copies" "end_wait" "fair_head" "holder_of" "kinds" "line" "line_of" "lines" "now_millis"
    "number_of" "once" "permit_line" "permits" "read_write" "refuse" "renew" "reserved" "set_lease"
    "tagged" "timeout_key" "waiters" "wrong_type"
}

/// A script in which each shared file stands at the first line that requires it. Lua makes the
/// functions of a file in each call, so a script can have its shortest path before that line. The
/// local variables of that path must not hide what the shared file uses, such as `pcall`.
pub(super) fn joined(script: &str) -> String {
    let mut joined = String::new();
    append(script, &mut joined, &mut HashSet::new());
    joined
}

fn append(text: &str, joined: &mut String, required: &mut HashSet<&'static str>) {
    for line in text.lines() {
        let name = line.strip_prefix(REQUIRE.0);
        let name = name.and_then(|rest| rest.strip_suffix(REQUIRE.1));
        let shared = SHARED.iter().find(|(shared, _)| name == Some(shared));
        if let Some((name, text)) = shared {
            if required.insert(name) {
                append(text, joined, required);
            }
        } else {
            joined.push_str(line);
            joined.push('\n');
        }
    }
}
