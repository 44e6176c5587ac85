//! The fenced lock: a plain lock whose holds have tokens.

use super::Kind;
use super::plain::{PLAIN, in_line};

/// The largest number of tokens for a grant that other threads of the client wait for: enough for
/// many hand-overs. The script reserves one token only while the tokens are ahead of the server's
/// clock in microseconds.
const BLOCK: &str = "256";

pub(crate) static FENCED: Kind = Kind {
    name: "fenced",
    is_joinable: false,
    has_tokens: true,
    options: |call, _keys, _owner, options| {
        in_line(call, options).arg(if options.holds > 1 { BLOCK } else { "1" })
    },
    ..PLAIN
};
