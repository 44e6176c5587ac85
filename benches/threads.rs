//! Threads that lock and unlock names of their own as fast as they can, with one client for all.
//! The floors are the same scripts without a library: on a connection for each thread, and on one
//! connection to which one thread writes the requests of all. `rslock` is measured beside them if
//! its driver of `benches/peers` is built. And threads that share a semaphore with a permit for
//! each.

#[path = "support/mod.rs"]
mod support;

use std::{env, path::Path, time::Duration};

use comfy_table::{Table as Grid, presets::ASCII_MARKDOWN};
use support::{
    Server,
    apart::{self, Kind},
    contention::alternate,
    is_list, is_test, length, perf, pin_clients,
    side::{Figures, Side},
    table::{Bound, Table},
};

/// The environment variable for the numbers of threads, with commas between them.
const THREADS: &str = "LEASEHOLD_BENCH_THREADS";

const OURS: &str = "leasehold";
const RAW: &str = "raw";
const PIPELINE: &str = "one pipeline";
const RSLOCK: &str = "rslock";

/// The threads and the permits of the semaphore.
const PERMITS: usize = 64;

/// Built by `scripts/compare`.
const DRIVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/peers/release/leasehold-peers-rust"
);

/// Connections of a client with 64 threads: links, and those of the watchdog and the subscriber.
const CONNECTIONS: f64 = 10.0;

fn main() {
    if apart::serve() || is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let mut sides = vec![
        Side::start(OURS, Kind::Locks, &server),
        Side::start(RAW, Kind::RawLocks, &server),
        Side::start(PIPELINE, Kind::Pipeline, &server),
    ];
    if Path::new(DRIVER).exists() {
        sides.push(Side::driver(RSLOCK, DRIVER, &server));
    } else {
        println!("SKIPPED: rslock is not built: run scripts/compare --quick");
    }
    let mut grid = grid();
    let mut table = Table::new();
    for threads in numbers_of_threads() {
        let figures = measure(&mut sides, &server, threads);
        let sides: Vec<_> = sides.iter().map(|side| side.name).zip(figures).collect();
        for (name, figures) in &sides {
            grid.add_row(row(threads, name, figures));
        }
        report(&mut table, threads, &sides);
    }
    instructions(&mut table, &server);

    let mut sides = [
        Side::start("permits", Kind::Permits, &server),
        Side::start("raw permits", Kind::RawPermits, &server),
    ];
    let threads = if is_test() { 4 } else { PERMITS };
    let figures = measure(&mut sides, &server, threads);
    for (side, figures) in sides.iter().zip(&figures) {
        grid.add_row(row(threads, side.name, figures));
    }
    let rates = [&figures[0], &figures[1]].map(Figures::rate);
    let what = format!("{threads} threads, {threads} permits of one semaphore: pairs, to scripts");
    ratio(&mut table, &what, rates, "/s", Bound::None);
    println!("\n{grid}");
    table.print();
}

fn numbers_of_threads() -> Vec<usize> {
    let set = env::var(THREADS).unwrap_or_default();
    let set: Vec<_> = set
        .split(',')
        .filter_map(|word| word.parse().ok())
        .collect();
    match set.is_empty() {
        true if is_test() => vec![1, 4],
        true => vec![1, 2, 4, 8, 16, 64, 256],
        false => set,
    }
}

/// Runs windows of all sides in turn, and then those that only count.
fn measure(sides: &mut [Side], server: &Server, threads: usize) -> Vec<Figures> {
    let window = length(Duration::from_secs(1), Duration::from_millis(100));
    let mut connection = server.connection();
    let mut figures = vec![Figures::default(); sides.len()];
    alternate(5, sides.len(), |side, is_counted| {
        let mut warm_up = Figures::default();
        let figures = if is_counted {
            &mut figures[side]
        } else {
            &mut warm_up
        };
        sides[side].window(&mut connection, threads, window, figures);
    });
    for (side, figures) in sides.iter_mut().zip(&mut figures) {
        side.count(server, threads, window / 2, figures);
    }
    figures
}

fn grid() -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(ASCII_MARKDOWN).set_header([
        "threads",
        "side",
        "pairs/s",
        "failed",
        "p50, us",
        "p99",
        "p99.9",
        "longest",
        "client CPU, us (user + kernel)",
        "server CPU, us",
        "switches (own + forced)",
        "system calls",
        "instructions",
        "commands",
        "server's reads",
        "connections",
        "slowest/fastest",
    ]);
    grid
}

/// All figures of a side; those from the CPU time on are of one pair.
fn row(threads: usize, name: &str, figures: &Figures) -> Vec<String> {
    let [user, kernel] = figures.client_cpu();
    let [own, forced] = figures.switches();
    let optional = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "-".into(), |number| format!("{number:.digits$}"))
    };
    let mut row = vec![
        threads.to_string(),
        name.into(),
        format!("{:.0}", figures.rate()),
        figures.failed.to_string(),
    ];
    row.extend([0.5, 0.99, 0.999, 1.0].map(|share| format!("{:.0}", figures.time(share))));
    row.extend([
        format!("{:.1} ({user:.1} + {kernel:.1})", user + kernel),
        format!("{:.1}", figures.server_cpu()),
        format!("{own:.2} + {forced:.2}"),
        optional(figures.system_calls, 2),
        optional(figures.instructions, 0),
        format!("{:.2}", figures.commands),
        format!("{:.2}", figures.server_reads()),
        figures.connections.to_string(),
        format!("{:.2}", figures.slowest_to_fastest()),
    ]);
    row
}

/// The figures with a bound.
fn report(table: &mut Table, threads: usize, sides: &[(&str, Figures)]) {
    let find = |name| sides.iter().find(|side| side.0 == name).map(|side| &side.1);
    let (Some(ours), Some(raw)) = (find(OURS), find(RAW)) else {
        return;
    };
    let workers = match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads, a name each"),
    };
    let is_many = threads >= 64;
    let many = |bound| if is_many { bound } else { Bound::None };
    let mut to = |what: &str, floor: &Figures, of: fn(&Figures) -> f64, unit, bound| {
        let what = format!("{workers}: {what}");
        ratio(table, &what, [ours, floor].map(of), unit, bound);
    };
    let rate = match threads {
        1 => Bound::None,
        2..=8 => Bound::AtLeast(0.95),
        9..=63 => Bound::AtLeast(1.0),
        _ => Bound::AtLeast(1.3),
    };
    to(
        "pairs, to a connection each",
        raw,
        Figures::rate,
        "/s",
        rate,
    );
    let p99 = many(Bound::AtMost(1.0));
    to("p99, to the same", raw, |side| side.time(0.99), " us", p99);
    to("p99.9", raw, |side| side.time(0.999), " us", Bound::None);
    to("longest", raw, |side| side.time(1.0), " us", Bound::None);
    let cpu = many(Bound::AtMost(1.0));
    to("client CPU", raw, Figures::all_client_cpu, " us", cpu);
    let cpu = many(Bound::AtMost(0.7));
    to("server CPU", raw, Figures::server_cpu, " us", cpu);
    if let Some(pipeline) = find(PIPELINE) {
        to(
            "pairs, to one pipeline",
            pipeline,
            Figures::rate,
            "/s",
            Bound::None,
        );
    }
    if let Some(rslock) = find(RSLOCK) {
        let bound = many(Bound::AtLeast(0.45));
        to("pairs, to rslock", rslock, Figures::rate, "/s", bound);
    }
    if is_many {
        let what = format!("{workers}: slowest to fastest");
        let each = [ours, raw].map(|side| format!("{:.2}", side.slowest_to_fastest()));
        let figure = (ours.slowest_to_fastest(), "");
        table.figure(&what, each.into(), figure, Bound::AtLeast(0.7));
        let what = format!("{workers}: connections");
        let each = [ours, raw].map(|side| side.connections.to_string());
        let figure = (ours.connections as f64, "");
        table.figure(&what, each.into(), figure, Bound::AtMost(CONNECTIONS));
    }
}

fn ratio(table: &mut Table, what: &str, sides: [f64; 2], unit: &str, bound: Bound) {
    let figure = (sides[0] / sides[1].max(1e-9), " x");
    let sides = sides.map(|side| match side {
        large if large >= 100.0 => format!("{large:.0}{unit}"),
        small => format!("{small:.1}{unit}"),
    });
    table.figure(what, sides.into(), figure, bound);
}

/// The user instructions of a pair of one thread.
fn instructions(table: &mut Table, server: &Server) {
    if is_test() {
        return;
    }
    let of = |kind| perf::instructions_of_a_pair(kind, &server.url(), 1_000);
    let (Some(ours), Some(raw)) = (of(Kind::Locks), of(Kind::RawLocks)) else {
        println!("SKIPPED: instructions of a pair are counted by valgrind");
        return;
    };
    let sides = [ours, raw].map(|side| format!("{side:.0}"));
    let what = "1 thread: user instructions of a pair";
    table.figure(what, sides.into(), (ours, ""), Bound::AtMost(14_000.0));
}
