//! JSON for scripts.

use serde_json::Value;

/// An object on one line, without characters that could control a terminal.
pub(super) fn line(object: &Value) -> String {
    let mut line = String::new();
    for c in object.to_string().chars() {
        // JSON requires this only for control characters below the space.
        if (c.is_control() || c.escape_debug().len() > 1) && !matches!(c, '"' | '\\' | '\'') {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                line.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_controls_no_terminal_and_decodes_to_the_same_object() {
        for name in [
            "order:pay",
            "\x1b[2J\n",
            "\u{9b}2J\x7f",
            "\u{202e}\"\\'",
            "\u{e0001}ß☃",
        ] {
            let object = json!({"name": name});
            let line = line(&object);
            let inert = |c: char| !c.is_control() && c != '\u{202e}' && c != '\u{e0001}';
            assert!(line.trim_end().chars().all(inert), "{line:?}");
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read, object);
        }
    }
}
