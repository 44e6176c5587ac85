//! What workers do that have a name each.

use crate::Result;
use crate::clock::now;
use crate::section::Report;

/// The work of all workers of this process in one window.
#[derive(Clone)]
pub struct Apart {
    prefix: String,
    pub workers: usize,
    pub start: u64,
    end: u64,
}

impl Apart {
    /// PREFIX WORKERS START END.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let &[prefix, workers, start, end] = words else {
            return Err("apart has four words".into());
        };
        Ok(Self {
            prefix: prefix.to_owned(),
            workers: workers.parse()?,
            start: start.parse()?,
            end: end.parse()?,
        })
    }

    pub fn name(&self, worker: usize) -> String {
        format!("{}:{worker}", self.prefix)
    }

    pub fn is_over(&self) -> bool {
        now() >= self.end
    }

    /// Adds a pair that ends now.
    pub fn add_pair(&self, report: &mut Report, called: u64) {
        report.waited(now() - called);
        report.holds += 1;
        report.inside += u64::from(!self.is_over());
    }
}

/// PAIRS INSIDE GAVE_UP LONGEST SLOWEST FASTEST BUCKET:COUNT...
pub fn words(reports: Vec<Report>) -> String {
    let inside = || reports.iter().map(|report| report.inside);
    let (slowest, fastest) = (inside().min(), inside().max());
    let (slowest, fastest) = (slowest.unwrap_or(0), fastest.unwrap_or(0));
    let mut all = Report::default();
    reports.into_iter().for_each(|report| all.add(report));
    let (longest, times) = all.waits();
    let Report {
        holds,
        inside,
        gave_up,
        ..
    } = all;
    format!("{holds} {inside} {gave_up} {longest} {slowest} {fastest}{times}")
}
