//! The results, as a table or as one JSON object for each strategy.

use std::{
    io::{self, Write},
    time::Duration,
};

use crate::{
    Args,
    strategy::{POLL_INTERVAL, Strategy},
    support::Result,
    worker::OTHER_WORK,
};

/// The result of one sale.
pub struct Sale {
    pub stock: u32,
    pub sold: u32,
    pub left: i64,
    pub elapsed: Duration,
}

impl Sale {
    pub fn is_exact(&self) -> bool {
        self.sold == self.stock && self.left == 0
    }

    fn oversold(&self) -> u32 {
        self.sold.saturating_sub(self.stock)
    }

    fn per_second(&self) -> f64 {
        f64::from(self.sold) / self.elapsed.as_secs_f64()
    }
}

/// The sales of one strategy, of which there is at least one.
pub struct Results {
    pub strategy: Strategy,
    pub sales: Vec<Sale>,
}

impl Results {
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            sales: Vec::new(),
        }
    }

    fn is_exact(&self) -> bool {
        self.sales.iter().all(Sale::is_exact)
    }

    fn sum(&self, number: impl Fn(&Sale) -> u32) -> u32 {
        self.sales.iter().map(number).sum()
    }

    fn rate(&self) -> Spread {
        Spread::of(self.sales.iter().map(Sale::per_second).collect())
    }
}

/// The least, the middle and the greatest of several values.
struct Spread {
    least: f64,
    median: f64,
    greatest: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            least: values[0],
            median: values[values.len() / 2],
            greatest: values[values.len() - 1],
        }
    }
}

/// Prints one JSON object for each strategy. The values are numbers and the strategy's name, which
/// need no escapes.
pub fn print_json(results: &[Results]) -> Result<()> {
    for results in results {
        let rate = results.rate();
        writeln!(
            io::stdout(),
            r#"{{"strategy":"{}","sold":{},"oversold":{},"sales_per_second":{:.0},"least":{:.0},"greatest":{:.0}}}"#,
            results.strategy.name(),
            results.sum(|sale| sale.sold),
            results.sum(Sale::oversold),
            rate.median,
            rate.least,
            rate.greatest,
        )?;
    }
    Ok(())
}

/// Explains the table.
pub fn print_introduction(args: &Args) -> Result<()> {
    Ok(writeln!(
        io::stdout(),
        "{} processes with {} threads each sell the same {} articles, {} times with each strategy. \
         A sale reads the stock from Redis, checks it and writes it back. Each strategy protects \
         these steps in another way. After a sale, a thread does other work for {} us. With set-nx, \
         a waiting thread tries again every {} ms. With one-process, one process has all threads \
         and a mutex, and there is no lock in Redis.",
        args.processes,
        args.threads,
        args.stock,
        args.rounds,
        OTHER_WORK.as_micros(),
        POLL_INTERVAL.as_millis(),
    )?)
}

pub fn print_table(results: &[Results]) -> Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "\n{:12} {:>7} {:>8}   {:>16}   {:>15}   {:>12}",
        "strategy", "sold", "oversold", "sales per second", "least, greatest", "us for a sale",
    )?;
    for results in results {
        let rate = results.rate();
        writeln!(
            out,
            "{:12} {:>7} {:>8}   {:>16.0}   {:>15}   {:>12.0}",
            results.strategy.name(),
            results.sum(|sale| sale.sold),
            results.sum(Sale::oversold),
            rate.median,
            format!("{:.0}, {:.0}", rate.least, rate.greatest),
            1e6 / rate.median,
        )?;
    }
    Ok(writeln!(out)?)
}

/// Summarizes the table.
pub fn print_conclusion(results: &[Results]) -> Result<()> {
    let mut out = io::stdout();
    let of = |strategy| results.iter().find(|results| results.strategy == strategy);
    let oversold = |results: &Results| results.sum(Sale::oversold) > 0;
    if results
        .iter()
        .any(|results| !results.strategy.must_be_exact() && oversold(results))
    {
        writeln!(
            out,
            "Without a lock, or with a mutex in each process, more was sold than existed."
        )?;
    }
    let mut in_redis = [Strategy::SetNx, Strategy::Leasehold]
        .into_iter()
        .filter_map(of)
        .peekable();
    if in_redis.peek().is_some() && in_redis.all(Results::is_exact) {
        writeln!(
            out,
            "With a lock in Redis, which all processes share, every article was sold exactly once."
        )?;
    }
    if let (Some(leasehold), Some(set_nx)) = (of(Strategy::Leasehold), of(Strategy::SetNx)) {
        let ratios = leasehold.sales.iter().zip(&set_nx.sales);
        let ratio = Spread::of(
            ratios
                .map(|(a, b)| a.per_second() / b.per_second())
                .collect(),
        );
        writeln!(
            out,
            "leasehold sold {:.1} times as fast as set-nx (median; {:.1} to {:.1} in one round).",
            ratio.median, ratio.least, ratio.greatest,
        )?;
    }
    if let (Some(leasehold), Some(mutex)) = (of(Strategy::Leasehold), of(Strategy::OneProcess)) {
        let own = 1.0 - leasehold.rate().median / mutex.rate().median;
        writeln!(
            out,
            "The lock's own part of a sale was {:.0} %: the rest is what one-process needs, too.",
            100.0 * own.max(0.0),
        )?;
    }
    Ok(())
}
