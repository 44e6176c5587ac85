//! Texts of a server in errors and logs: only their beginnings, because a server may send anything.

use std::fmt::{self, Write};

/// The most bytes of such a text. The longest error replies of Redis that matter are shorter.
const MOST: usize = 512;

/// What follows a text that is cut.
const CUT: &str = "...";

/// The beginning of this text. The rest of it is not written, so a text of any length is cheap.
pub(crate) fn excerpt(text: fmt::Arguments<'_>) -> String {
    one_of(1, text)
}

/// The beginning of this text, which is in one error with others, `texts` together.
pub(crate) fn one_of(texts: usize, text: fmt::Arguments<'_>) -> String {
    let most = MOST / texts.max(1);
    let mut excerpt = Excerpt {
        text: String::new(),
        room: most.saturating_sub(CUT.len()),
    };
    if excerpt.write_fmt(text).is_err() {
        excerpt.text.push_str(CUT);
    }
    excerpt.text
}

struct Excerpt {
    text: String,
    room: usize,
}

impl Write for Excerpt {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut taken = self.room.min(text.len());
        while !text.is_char_boundary(taken) {
            taken -= 1;
        }
        self.text.push_str(&text[..taken]);
        self.room -= taken;
        match taken == text.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        assert_eq!(excerpt(format_args!("{:?}", "a")), "\"a\"");
        for long in ["x".repeat(MOST), "€".repeat(MOST), "x".repeat(1 << 20)] {
            let cut = excerpt(format_args!("{long}"));
            assert!(cut.len() <= MOST && cut.len() > MOST - 8, "{}", cut.len());
            assert!(one_of(4, format_args!("{long}")).len() <= MOST / 4);
            assert!(
                cut.strip_suffix(CUT)
                    .is_some_and(|cut| long.starts_with(cut))
            );
        }
    }
}
