//! The results, as a table or as one JSON object for each strategy.

use std::{
    io::{self, Write},
    time::Duration,
};

use comfy_table::{Cell, CellAlignment, Color, Table, presets::UTF8_FULL_CONDENSED};

use crate::{
    Args,
    strategy::{POLL_INTERVAL, Strategy},
    support::Result,
    worker::OTHER_WORK,
};

const COLUMNS: [&str; 8] = [
    "strategy",
    "processes x threads",
    "stock",
    "sold",
    "oversold",
    "stock left",
    "seconds",
    "sales per second",
];

/// The result of one sale.
pub struct Outcome {
    pub strategy: Strategy,
    pub stock: u32,
    pub sold: u32,
    pub left: i64,
    pub elapsed: Duration,
}

impl Outcome {
    pub fn is_exact(&self) -> bool {
        self.sold == self.stock && self.left == 0
    }

    fn oversold(&self) -> u32 {
        self.sold.saturating_sub(self.stock)
    }

    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    fn sales_per_second(&self) -> f64 {
        f64::from(self.sold) / self.seconds()
    }
}

/// Prints one JSON object. Its values are numbers and a strategy name, which need no escapes.
pub fn print_json(outcome: &Outcome) -> Result<()> {
    Ok(writeln!(
        io::stdout(),
        r#"{{"strategy":"{}","sold":{},"oversold":{},"left":{},"seconds":{:.3}}}"#,
        outcome.strategy.name(),
        outcome.sold,
        outcome.oversold(),
        outcome.left,
        outcome.seconds(),
    )?)
}

/// Explains the table.
pub fn print_introduction(args: &Args) -> Result<()> {
    Ok(writeln!(
        io::stdout(),
        "{} processes with {} threads each sell the same {} articles. A sale reads the stock from \
         Redis, checks it and writes it back. Each strategy protects these steps in another way. \
         After a sale, a thread does other work for {} us. With set-nx, a waiting thread tries \
         again every {} ms.",
        args.processes,
        args.threads,
        args.stock,
        OTHER_WORK.as_micros(),
        POLL_INTERVAL.as_millis(),
    )?)
}

/// Summarizes the table.
pub fn print_conclusion(outcomes: &[Outcome]) -> Result<()> {
    let select = |must_be_exact: bool| {
        let rows = outcomes.iter();
        let rows = rows.filter(|outcome| outcome.strategy.must_be_exact() == must_be_exact);
        rows.collect::<Vec<_>>()
    };
    let (unprotected, protected) = (select(false), select(true));
    let mut sentences = Vec::new();
    if unprotected.iter().any(|outcome| outcome.oversold() > 0) {
        sentences
            .push("Without a lock, or with a mutex in each process, more was sold than existed");
    }
    if !protected.is_empty() && protected.iter().all(|outcome| outcome.is_exact()) {
        sentences.push(
            "with a lock in Redis, which all processes share, every article was sold exactly once",
        );
    }
    if sentences.is_empty() {
        return Ok(());
    }
    Ok(writeln!(io::stdout(), "{}.", sentences.join("; "))?)
}

pub fn print_table(args: &Args, outcomes: &[Outcome]) -> Result<()> {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(COLUMNS);
    for outcome in outcomes {
        table.add_row(row(args, outcome));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(writeln!(io::stdout(), "{table}")?)
}

fn row(args: &Args, outcome: &Outcome) -> [Cell; COLUMNS.len()] {
    [
        Cell::new(outcome.strategy.name()),
        Cell::new(format!("{} x {}", args.processes, args.threads)),
        Cell::new(outcome.stock),
        Cell::new(outcome.sold),
        Cell::new(outcome.oversold()).fg(if outcome.oversold() == 0 {
            Color::Green
        } else {
            Color::Red
        }),
        Cell::new(outcome.left),
        Cell::new(format!("{:.2}", outcome.seconds())),
        Cell::new(format!("{:.0}", outcome.sales_per_second())),
    ]
}
