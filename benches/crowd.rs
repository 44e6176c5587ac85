//! Many clients with one waiting thread each, in several processes, on one name: how many grants a
//! second they get, what a grant costs, and how evenly they are spread.
//!
//! ```text
//! cargo bench --bench crowd -- [MODE...] [kinds=K,..] [clients=N,..] [processes=N,..] [seconds=N]
//! ```
//!
//! The modes are `crowd`, `condition`, `names`, `killed` and `idle`; without one, all of them run.

#[path = "support/mod.rs"]
mod support;

use std::{env, process, thread, time::Duration};

use comfy_table::{Table as Grid, presets::ASCII_MARKDOWN};
use support::{
    Server,
    clock::{after, nanos, now, sleep_until},
    crowd::{self, AND, CONDITION, KINDS, Kind, Process, Run, Span},
    is_list, is_test, median, pin_clients,
    server::{CommandCounts, open_many_files},
    table::{Bound, Table},
    used::Used,
};

const NAME: &str = "crowd";

/// From this number of clients on, figures have bounds.
const MANY: usize = 200;

/// How long a client has the lock.
const HOLD: Duration = Duration::from_millis(1);

/// The same, of several names and beside them.
const HOLD_OF_NAMES: Duration = Duration::from_millis(5);

/// Clients that wait, and how many of them are killed.
const WAITING: usize = 20;
const KILLED: usize = 10;
const GRANTED_WITHIN: Duration = Duration::from_secs(70);

/// What clients send to acquire, to release and to learn of a release.
const COMMANDS: [&str; 6] = [
    "eval",
    "evalsha",
    "subscribe",
    "ssubscribe",
    "unsubscribe",
    "sunsubscribe",
];

fn main() {
    if crowd::serve() || is_list() {
        return;
    }
    pin_clients();
    open_many_files();
    let options = Options::of_arguments();
    let mut table = Table::new();
    if options.wants("crowd") {
        crowds(&options, &mut table);
    }
    if options.wants("condition") {
        for clients in options.clients(&[200], 4) {
            notify_all(&options, clients, &mut table);
        }
    }
    if options.wants("names") {
        for names in options.clients(&[3, 5], 2) {
            names_beside_one(&options, names, &mut table);
        }
    }
    if options.wants("killed") {
        for kind in options.kinds(if is_test() { &KINDS[..3] } else { &KINDS }) {
            killed(kind, &mut table);
        }
    }
    if options.wants("idle") {
        for kind in options.kinds(&[Kind::Plain]) {
            for clients in options.clients(&[1_000], 4) {
                idle(&options, kind, clients, &mut table);
            }
        }
    }
    table.print();
}

/// What to measure, from the arguments.
#[derive(Default)]
struct Options {
    modes: Vec<String>,
    kinds: Vec<Kind>,
    clients: Vec<usize>,
    processes: Vec<usize>,
    seconds: Option<f64>,
}

impl Options {
    fn of_arguments() -> Self {
        let mut options = Self::default();
        for argument in env::args().skip(1).filter(|word| !word.starts_with("--")) {
            let (name, values) = argument.split_once('=').unwrap_or((&argument, ""));
            let values = values.split(',');
            let number = |word: &str| word.parse::<usize>().expect("a number");
            match name {
                "kinds" => {
                    let kind = |word: &str| Kind::parse(word).expect("a kind");
                    options.kinds = values.map(kind).collect();
                }
                "clients" => options.clients = values.map(number).collect(),
                "processes" => options.processes = values.map(number).collect(),
                "seconds" => {
                    options.seconds = values.map(|word| word.parse().expect("a number")).next();
                }
                mode => options.modes.push(mode.to_owned()),
            }
        }
        options
    }

    fn wants(&self, mode: &str) -> bool {
        self.modes.is_empty() || self.modes.iter().any(|wanted| wanted == mode)
    }

    fn kinds(&self, default: &[Kind]) -> Vec<Kind> {
        chosen(&self.kinds, default)
    }

    fn clients(&self, default: &[usize], test: usize) -> Vec<usize> {
        let test = [test];
        chosen(&self.clients, if is_test() { &test } else { default })
    }

    fn processes(&self) -> Vec<usize> {
        chosen(&self.processes, if is_test() { &[2] } else { &[4] })
    }

    /// A part of the time that N clients need to have the lock once is added to the default.
    fn seconds(&self, default: f64, clients: usize) -> Duration {
        let default = if is_test() {
            0.2
        } else {
            default + 0.004 * clients as f64
        };
        Duration::from_secs_f64(self.seconds.unwrap_or(default))
    }
}

fn chosen<T: Clone>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() {
        default.to_vec()
    } else {
        chosen.to_vec()
    }
}

/// Starts processes that share the clients. Returns when all clients are connected.
fn start(server: &Server, kind: Kind, clients: usize, processes: usize) -> Vec<Process> {
    let names = vec![NAME.to_owned(); clients];
    let each = clients.div_ceil(processes.max(1));
    let start = |names: &[String]| Process::start(server, kind, HOLD, names);
    let mut processes: Vec<_> = names.chunks(each).map(start).collect();
    processes.iter_mut().for_each(Process::ready);
    processes
}

/// What clients send, and the CPU time of the server.
#[derive(Clone, Copy)]
struct Cost {
    commands: u64,
    server: f64,
}

impl Cost {
    fn ask(connection: &mut redis::Connection) -> Self {
        let counts = CommandCounts::ask(connection);
        let used = Used::ask(process::id(), connection).expect("INFO and /proc");
        Self {
            commands: COMMANDS.iter().map(|command| counts.of(command)).sum(),
            server: used.server,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            server: self.server - before.server,
        }
    }
}

/// The clients in a window.
struct Figures {
    grants: u64,
    /// Grants a second.
    rate: f64,
    commands: f64,
    /// CPU time of the server for a grant, in microseconds.
    server: f64,
    /// The longest wait, in milliseconds, and to the mean time of a grant for each client.
    longest: f64,
    rounds: f64,
    fewest: u64,
    most: u64,
    errors: u64,
}

impl Figures {
    fn of(runs: &[Run], cost: Cost, window: Duration) -> Self {
        let grants = runs.iter().map(|run| run.grants);
        let all: u64 = grants.clone().sum();
        let longest = runs.iter().map(|run| run.longest).max().unwrap_or(0) as f64;
        let one = all.max(1) as f64;
        let round = nanos(window) as f64 / one * runs.len() as f64;
        Self {
            grants: all,
            rate: all as f64 / window.as_secs_f64(),
            commands: cost.commands as f64 / one,
            server: cost.server * 1e6 / one,
            longest: longest / 1e6,
            rounds: longest / round,
            fewest: grants.clone().min().unwrap_or(0),
            most: grants.max().unwrap_or(0),
            errors: runs.iter().map(|run| run.errors).sum(),
        }
    }
}

fn crowds(options: &Options, table: &mut Table) {
    let mut grid = Grid::new();
    grid.load_preset(ASCII_MARKDOWN).set_header([
        "kind",
        "clients",
        "processes",
        "grants/s",
        "commands",
        "server CPU, us",
        "longest, ms",
        "longest/round",
        "fewest",
        "most",
        "errors",
    ]);
    for kind in options.kinds(&KINDS) {
        let all: &[usize] = match kind {
            Kind::Plain | Kind::Fair => &[2, 10, 50, 200, 1_000],
            _ => &[2, 200],
        };
        for processes in options.processes() {
            let mut few = None;
            for clients in options.clients(all, 4) {
                let figures = measure(options, kind, clients, processes);
                grid.add_row(row(kind, clients, processes.min(clients), &figures));
                if clients >= MANY {
                    bounds(table, kind, clients, &figures, few.as_ref());
                }
                few.get_or_insert(figures);
            }
        }
    }
    println!("\n{grid}");
}

fn measure(options: &Options, kind: Kind, clients: usize, processes: usize) -> Figures {
    let server = Server::start();
    kind.prepare(&server.client(), NAME);
    let mut connection = server.connection();
    let mut crowd = start(&server, kind, clients, processes);
    let window = options.seconds(2.0, clients);
    let span = window_of(clients, window);
    crowd.iter_mut().for_each(|process| process.begin(span));
    sleep_until(span.from);
    let before = Cost::ask(&mut connection);
    sleep_until(span.end);
    let cost = Cost::ask(&mut connection).since(before);
    let runs: Vec<_> = crowd.iter_mut().flat_map(Process::end).collect();
    Figures::of(&runs, cost, window)
}

/// A window that begins when all clients have asked, and have had the lock if that is quick.
fn window_of(clients: usize, length: Duration) -> Span {
    let [lead, warm_up] = if is_test() {
        [50, 50]
    } else {
        [200, 500 + 2 * clients as u64]
    };
    let start = after(Duration::from_millis(lead));
    let from = start + nanos(Duration::from_millis(warm_up));
    let end = from + nanos(length);
    Span {
        start,
        from,
        end,
        grants: u64::MAX,
    }
}

fn row(kind: Kind, clients: usize, processes: usize, figures: &Figures) -> Vec<String> {
    let counts = [figures.fewest, figures.most, figures.errors].map(|count| count.to_string());
    let mut row = vec![kind.to_string(), clients.to_string(), processes.to_string()];
    row.extend([
        format!("{:.1}", figures.rate),
        format!("{:.2}", figures.commands),
        format!("{:.0}", figures.server),
        format!("{:.1}", figures.longest),
        format!("{:.2}", figures.rounds),
    ]);
    row.extend(counts);
    row
}

/// The figures with a bound. `few` are those of the fewest clients.
fn bounds(table: &mut Table, kind: Kind, clients: usize, figures: &Figures, few: Option<&Figures>) {
    let mut add = |what, [ours, floor]: [String; 2], (value, unit), bound| {
        let what = format!("{kind}, {clients} clients: {what}");
        table.figure(&what, (ours, floor), (value, unit), bound);
    };
    let only = |text| [text, String::new()];
    if let Some(few) = few {
        let sides = [figures, few].map(|side| format!("{:.1}/s", side.rate));
        let figure = (figures.rate / few.rate.max(1e-9), " x");
        let bound = Bound::AtLeast(if clients >= 1_000 { 0.8 } else { 0.9 });
        add("grants, to the fewest clients", sides, figure, bound);
        let sides = [figures, few].map(|side| format!("{:.0} us", side.server));
        let figure = (figures.server / few.server.max(1e-9), " x");
        let what = "CPU of the server for a grant, to the same";
        add(what, sides, figure, Bound::AtMost(1.5));
    }
    let commands = (figures.commands, "");
    let what = "commands for a grant";
    add(what, only(String::new()), commands, Bound::AtMost(4.0));
    let longest = only(format!("{:.1} ms", figures.longest));
    let what = "longest wait, to a round of all";
    // A wait longer than the window is not seen.
    let is_seen = figures.grants >= 2 * clients as u64;
    let bound = if is_seen {
        Bound::AtMost(2.0)
    } else {
        Bound::None
    };
    add(what, longest, (figures.rounds, " x"), bound);
    let holds = only(format!("{} and {}", figures.fewest, figures.most));
    let share = figures.fewest as f64 / figures.most.max(1) as f64;
    let what = "fewest to most grants of a client";
    add(what, holds, (share, ""), Bound::AtLeast(0.5));
    let errors = (figures.errors as f64, "");
    add("errors", only(String::new()), errors, Bound::AtMost(0.0));
}

/// All clients wait for a condition, and are notified at once.
fn notify_all(options: &Options, clients: usize, table: &mut Table) {
    for processes in options.processes() {
        let server = Server::start();
        let (client, mut connection) = (server.client(), server.connection());
        let mut crowd = start(&server, Kind::Plain, clients, processes);
        crowd.iter_mut().for_each(Process::begin_to_wait);
        crowd.iter_mut().for_each(Process::ready);
        let lock = client.reentrant_lock(NAME);
        lock.lock().expect("all others wait for the condition");
        let (start, before) = (now(), Cost::ask(&mut connection));
        lock.condition(CONDITION).notify_all().expect("a reply");
        lock.unlock().expect("held");
        let runs: Vec<_> = crowd.iter_mut().flat_map(Process::end).collect();
        let cost = Cost::ask(&mut connection).since(before);
        let last = runs.iter().map(|run| run.last).max().unwrap_or(start);
        let took = Duration::from_nanos(last - start);
        let figures = Figures::of(&runs, cost, took);
        let mut add = |figure, value, unit, bound| {
            let what = format!("notify_all, {clients} clients: {figure}");
            table.figure(&what, (String::new(), String::new()), (value, unit), bound);
        };
        add(
            "notified",
            figures.grants as f64,
            "",
            Bound::AtLeast(clients as f64),
        );
        add("grants", figures.rate, "/s", Bound::None);
        add(
            "commands for a grant",
            figures.commands,
            "",
            Bound::AtMost(4.0),
        );
        add("server CPU for a grant", figures.server, " us", Bound::None);
        add(
            "until the last has the lock",
            took.as_secs_f64(),
            " s",
            Bound::None,
        );
        add("errors", figures.errors as f64, "", Bound::AtMost(0.0));
    }
}

/// A client of several names, beside a client of each of them, in a process each.
fn names_beside_one(options: &Options, count: usize, table: &mut Table) {
    let server = Server::start();
    let names: Vec<_> = (0..count)
        .map(|number| format!("{NAME}:{number}"))
        .collect();
    let all = [names.join(&AND.to_string())];
    let start = |kind, names: &[String]| Process::start(&server, kind, HOLD_OF_NAMES, names);
    let mut processes = vec![start(Kind::Names, &all)];
    processes.extend(names.chunks(1).map(|name| start(Kind::Plain, name)));
    processes.iter_mut().for_each(Process::ready);
    let span = window_of(count, options.seconds(5.0, count));
    processes.iter_mut().for_each(|process| process.begin(span));
    let runs: Vec<_> = processes.iter_mut().flat_map(Process::end).collect();
    let (several, single) = (runs[0], &runs[1..]);
    let grants: Vec<_> = single.iter().map(|run| run.grants as f64).collect();
    let grants = [several.grants as f64, median(&grants)];
    let share = grants[0] / grants[1].max(1.0);
    let longest = several.longest as f64 / 1e6;
    let what = |figure| format!("{count} names beside clients of one: {figure}");
    let sides = grants.map(|grants| format!("{grants:.0}")).into();
    let figure = "grants, to a client of one";
    table.figure(&what(figure), sides, (share, " x"), Bound::AtLeast(0.5));
    let none = (String::new(), String::new());
    table.figure(&what("longest wait"), none, (longest, " ms"), Bound::None);
}

/// The first clients that wait are killed. Then the lock is released.
fn killed(kind: Kind, table: &mut Table) {
    let (waiting, killed) = if is_test() { (4, 2) } else { (WAITING, KILLED) };
    let server = Server::start();
    let client = server.client();
    kind.prepare(&client, NAME);
    let release = kind.take(&client, NAME);
    let mut crowd = start(&server, kind, waiting, waiting);
    let (start, end) = (now(), after(GRANTED_WITHIN));
    for process in &mut crowd {
        process.begin(Span {
            start,
            from: start,
            end,
            grants: 1,
        });
        // Long enough for a request and a subscription.
        thread::sleep(Duration::from_millis(20));
    }
    crowd.drain(..killed);
    let released = now();
    release();
    let runs: Vec<_> = crowd.iter_mut().flat_map(Process::end).collect();
    let mut granted: Vec<_> = runs.iter().filter(|run| run.grants > 0).collect();
    granted.sort_unstable_by_key(|run| run.last);
    let seconds = |run: Option<&&Run>| {
        run.map_or(GRANTED_WITHIN.as_secs_f64(), |run| {
            run.last.saturating_sub(released) as f64 / 1e9
        })
    };
    let left = waiting - killed;
    let what = |figure| format!("{kind}, {killed} of {waiting} waiting clients killed: {figure}");
    let mut add = |figure, ours: String, value, unit, bound| {
        table.figure(&what(figure), (ours, String::new()), (value, unit), bound);
    };
    let first = seconds(granted.first());
    let had = format!("{} of {left}", granted.len());
    add(
        "until the next has it",
        String::new(),
        first,
        " s",
        Bound::AtMost(0.1),
    );
    add(
        "until the last has it",
        had,
        seconds(granted.last()),
        " s",
        Bound::None,
    );
}

/// All clients wait, and nothing is released.
fn idle(options: &Options, kind: Kind, clients: usize, table: &mut Table) {
    for processes in options.processes() {
        let server = Server::start();
        let (client, mut connection) = (server.client(), server.connection());
        kind.prepare(&client, NAME);
        let _release = kind.take(&client, NAME);
        let mut crowd = start(&server, kind, clients, processes);
        let time = options.seconds(10.0, 0);
        let mut span = window_of(clients, time);
        span.from += nanos(Duration::from_millis(3 * clients as u64));
        span.end = span.from + nanos(time + GRANTED_WITHIN);
        crowd.iter_mut().for_each(|process| process.begin(span));
        sleep_until(span.from);
        let before = Cost::ask(&mut connection);
        thread::sleep(time);
        let cost = Cost::ask(&mut connection).since(before);
        drop(crowd);
        let seconds = time.as_secs_f64();
        let sent = format!("{} in {seconds:.1} s", cost.commands);
        let rate = cost.commands as f64 / seconds;
        let what = format!("{kind}, {clients} clients wait and nothing is released: requests");
        table.figure(
            &what,
            (sent, String::new()),
            (rate, "/s"),
            Bound::AtMost(50.0),
        );
        let what = format!("{kind}, the same: CPU of the server");
        let share = cost.server / seconds * 100.0;
        let none = (String::new(), String::new());
        table.figure(&what, none, (share, " % of a core"), Bound::None);
    }
}
