//! Horizontal bars: one for each peer.

use leasehold_peers_compare::Result;
use plotters::prelude::{PathElement, Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::style::{Area, LABEL, TITLE, colour, text, thin};

/// Room for the titles.
const TOP: i32 = 52;
const ROW: i32 = 30;
/// Room for a number at the end of a bar.
const NUMBER: i32 = 84;

/// The height of a panel with this many peers.
pub fn height(peers: usize) -> u32 {
    (TOP + ROW * peers as i32 + 8) as u32
}

pub struct Bars<'a> {
    pub title: &'a str,
    pub subtitle: &'a str,
    /// Names, the lengths of their bars, and the text at the end of each.
    pub rows: Vec<(&'a str, f64, String)>,
    /// Where the bars of a logarithmic scale begin.
    pub logarithmic_from: Option<f64>,
    /// Room for names at the left, if they are written.
    pub names: i32,
}

impl Bars<'_> {
    pub fn draw(&self, area: &Area<'_>) -> Result<()> {
        let (width, _) = area.dim_in_pixel();
        let room = width as i32 - self.names - NUMBER;
        let longest = self.rows.iter().map(|row| row.1).fold(0.0, f64::max);
        let share = |length: f64| match self.logarithmic_from {
            Some(from) => (length / from).max(1.0).ln() / (longest / from).ln(),
            None => length / longest,
        };
        let label = |size, across| text(size, across, VPos::Center);
        let title = (self.names, 14);
        area.draw(&Text::new(self.title, title, label(TITLE, HPos::Left)))?;
        let subtitle = (self.names, 36);
        area.draw(&Text::new(
            self.subtitle,
            subtitle,
            label(LABEL, HPos::Left),
        ))?;
        for (place, (name, length, number)) in self.rows.iter().enumerate() {
            let top = TOP + ROW * place as i32;
            let middle = top + ROW / 2 - 2;
            if self.names > 0 {
                let at = (self.names - 8, middle);
                area.draw(&Text::new(*name, at, label(LABEL, HPos::Right)))?;
            }
            let end = self.names + (share(*length) * f64::from(room)).max(2.0) as i32;
            let corners = [(self.names, top + 2), (end, top + ROW - 6)];
            // The first peer of a list is number 0, which has its own colour.
            let fill = colour(place.saturating_sub(1), name).filled();
            area.draw(&Rectangle::new(corners, fill))?;
            let at = (end + 6, middle);
            area.draw(&Text::new(number.as_str(), at, label(LABEL, HPos::Left)))?;
        }
        let bottom = TOP + ROW * self.rows.len() as i32;
        let axis = vec![(self.names, TOP - 2), (self.names, bottom)];
        area.draw(&PathElement::new(axis, thin()))?;
        Ok(())
    }
}
