//! Colours and text that can be read on light and on dark pages.

use std::fs;
use std::path::Path;

use leasehold_peers_compare::Result;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, PathElement, RGBColor, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Sizes of text. The backend divides them by 1.24.
pub const TITLE: u32 = 17;
pub const LABEL: u32 = 15;

pub const GREY: RGBColor = RGBColor(0x57, 0x60, 0x6a);
pub const OURS: RGBColor = RGBColor(0xbc, 0x4c, 0x00);
pub const SECOND: RGBColor = RGBColor(0x09, 0x69, 0xda);
pub const BAD: RGBColor = RGBColor(0xcf, 0x22, 0x2e);

const OTHERS: [RGBColor; 6] = [
    SECOND,
    RGBColor(0x1a, 0x7f, 0x37),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0x7d, 0x61, 0x00),
    RGBColor(0xbf, 0x39, 0x89),
    RGBColor(0x1b, 0x7c, 0x83),
];

/// The colours above on a dark page. All of them have a contrast of 4.5 to the background or more:
/// those above on white, these on the dark pages of rustdoc.
const DARK: [(RGBColor, &str); 9] = [
    (GREY, "#a8b3bf"),
    (OURS, "#f59042"),
    (BAD, "#ff8f87"),
    (OTHERS[0], "#6cb0ff"),
    (OTHERS[1], "#4cc764"),
    (OTHERS[2], "#c297ff"),
    (OTHERS[3], "#e0a52c"),
    (OTHERS[4], "#ff8ccb"),
    (OTHERS[5], "#4fd0da"),
];

/// The colour of a peer: leasehold's is the same in all plots.
pub fn colour(place: usize, name: &str) -> RGBColor {
    match name {
        "leasehold" => OURS,
        _ => OTHERS[place % OTHERS.len()],
    }
}

pub fn text(size: u32, across: HPos, along: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", size).into_font();
    TextStyle::from(font)
        .color(&GREY)
        .pos(Pos::new(across, along))
}

pub fn thin() -> ShapeStyle {
    GREY.mix(0.35).stroke_width(1)
}

/// Writes the names of lines beside their ends, which are given with their colours.
pub fn names(area: &Area<'_>, mut ends: Vec<((i32, i32), RGBColor, &str)>) -> Result<()> {
    // From the top, each name at least a line below the one before it.
    ends.sort_by_key(|end| end.0.1);
    let mut lowest = i32::MIN;
    for ((x, y), colour, name) in ends {
        let at = y.max(lowest);
        lowest = at + 18;
        let link = vec![(x + 2, y), (x + 12, at)];
        area.draw(&PathElement::new(link, colour.mix(0.6).stroke_width(1)))?;
        let style = text(LABEL, HPos::Left, VPos::Center).color(&colour);
        area.draw(&Text::new(name, (x + 16, at), style))?;
    }
    Ok(())
}

/// Adds what the backend does not write: a title for readers who cannot see the picture, the
/// colours on a dark page, and a newline at the end.
pub fn complete(path: &Path, title: &str) -> Result<()> {
    let drawn = fs::read_to_string(path)?;
    let (tag, rest) = drawn.split_once('>').ok_or("not a picture")?;
    // Rustdoc contains the picture itself, and has a setting for the colours of its pages.
    let rules = dark(rest, ":root:not([data-theme=light])");
    let chosen = dark(rest, ":root:is([data-theme=dark],[data-theme=ayu])");
    let text = format!(
        "{tag} role=\"img\" style=\"max-width:100%;height:auto\">\n<title>{title}</title>\n\
         <style>\n@media (prefers-color-scheme:dark){{\n{rules}}}\n{chosen}</style>{}\n",
        rest.trim_end()
    );
    Ok(fs::write(path, text)?)
}

/// Rules for the colours that are used in a picture.
fn dark(picture: &str, page: &str) -> String {
    let mut rules = String::new();
    for (RGBColor(red, green, blue), dark) in DARK {
        for property in ["fill", "stroke"] {
            let light = format!("{property}=\"#{red:02X}{green:02X}{blue:02X}\"");
            if picture.contains(&light) {
                rules += &format!("{page} [{light}]{{{property}:{dark}}}\n");
            }
        }
    }
    rules
}
