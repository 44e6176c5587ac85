//! Colours and text that can be read on light and on dark pages.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub const GREY: RGBColor = RGBColor(0x80, 0x87, 0x90);
pub const OURS: RGBColor = RGBColor(0xe0, 0x6c, 0x10);
pub const SECOND: RGBColor = RGBColor(0x3f, 0x8f, 0xd0);
pub const BAD: RGBColor = RGBColor(0xd6, 0x45, 0x45);

const OTHERS: [RGBColor; 6] = [
    SECOND,
    RGBColor(0x2f, 0xa0, 0x78),
    RGBColor(0xa8, 0x78, 0xd8),
    RGBColor(0xb8, 0x92, 0x20),
    RGBColor(0xd8, 0x6a, 0x94),
    RGBColor(0x6a, 0x9a, 0xa8),
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
