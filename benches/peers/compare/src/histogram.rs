//! Counts of durations, as the drivers report them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Result;

/// A bucket N counts the durations from 2^(N/32) nanoseconds on.
#[derive(Default, Serialize, Deserialize, Clone)]
#[serde(into = "String", try_from = "String")]
pub struct Histogram(pub BTreeMap<u32, u64>);

impl Histogram {
    /// Adds words BUCKET:COUNT.
    pub fn add_words(&mut self, words: &[String]) -> Result<()> {
        for word in words {
            let (bucket, count) = word.split_once(':').ok_or("not BUCKET:COUNT")?;
            *self.0.entry(bucket.parse()?).or_default() += count.parse::<u64>()?;
        }
        Ok(())
    }

    /// The duration, in nanoseconds, that this share of all does not exceed, within 2.2 %.
    pub fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.values().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (&bucket, &count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return middle(bucket);
            }
        }
        0.0
    }
}

impl From<Histogram> for String {
    fn from(counts: Histogram) -> Self {
        let words = counts
            .0
            .iter()
            .map(|(bucket, count)| format!("{bucket}:{count}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

impl TryFrom<String> for Histogram {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let mut counts = Self::default();
        counts
            .add_words(&words)
            .map_err(|error| error.to_string())?;
        Ok(counts)
    }
}

/// The middle of a bucket, in nanoseconds.
pub fn middle(bucket: u32) -> f64 {
    ((f64::from(bucket) + 0.5) / 32.0).exp2()
}
