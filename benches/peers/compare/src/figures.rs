//! The figures that are compared, in one list for the tables and for what is said about them.

use crate::results::{Apart, CROWDS, Contended, Figures, Held, Results, median, quantile};

type Value = Box<dyn Fn(&Figures) -> Option<f64>>;

/// One figure of each peer.
pub struct Figure {
    pub workload: String,
    pub what: &'static str,
    value: Value,
    text: fn(f64) -> String,
    is_higher_better: bool,
}

impl Figure {
    /// The figure with its unit; nothing if it was not measured.
    pub fn text(&self, peer: &Figures) -> String {
        (self.value)(peer).map_or_else(String::new, self.text)
    }

    /// Whether a figure is better than another one, as far as their texts show.
    pub fn is_better(&self, of: &Figures, than: &Figures) -> bool {
        let (Some(of), Some(than)) = ((self.value)(of), (self.value)(than)) else {
            return false;
        };
        (self.text)(of) != (self.text)(than) && (of > than) == self.is_higher_better
    }
}

/// All figures, those of one workload after another.
pub fn all(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    free_lock(&mut figures);
    for (name, workload) in [
        ("empty", "8 workers, no work"),
        ("busy", "8 workers, busy"),
        ("processes", "2 processes, no work"),
    ] {
        contended(&mut figures, name, workload);
    }
    apart(&mut figures);
    hand_over(&mut figures);
    for (name, clients) in CROWDS {
        contended(&mut figures, name, &format!("one name, {clients} clients"));
    }
    held(&mut figures, results.run.locks);
    figures
}

fn free_lock(figures: &mut Vec<Figure>) {
    let mut add = |what, text, value: fn(&Figures) -> f64| {
        let value = Box::new(move |peer: &Figures| Some(value(peer)));
        figures.push(lower("a free lock".to_owned(), what, text, value));
    };
    add("median", time, |peer| peer.pair.median_ns as f64);
    add("99.9 %", time, |peer| peer.pair.p999_ns as f64);
    add("longest", time, |peer| peer.pair.longest_ns as f64);
    add("commands", tenths, |peer| peer.pair.commands);
}

fn contended(figures: &mut Vec<Figure>, name: &'static str, workload: &str) {
    let of = |value: fn(&Contended) -> f64| -> Value {
        Box::new(move |peer| peer.contended.get(name).map(value))
    };
    figures.push(Figure {
        workload: workload.to_owned(),
        what: "acquisitions per second",
        value: of(Contended::rate),
        text: grouped,
        is_higher_better: true,
    });
    let mut add = |what, text, value| {
        figures.push(lower(workload.to_owned(), what, text, of(value)));
    };
    add("median wait", time, |all| all.wait(0.5));
    add("99.9 % of waits", time, |all| all.wait(0.999));
    add("longest wait", time, |all| all.longest_ns as f64);
    add("commands per acquisition", thousandths, |all| {
        all.commands_per_acquisition
    });
    add("calls that gave up", grouped, |all| all.gave_up as f64);
    add("lost additions", grouped, |all| all.lost_additions as f64);
    if name == "processes" {
        figures.push(Figure {
            workload: workload.to_owned(),
            what: "smallest share of a process",
            value: of(|all| median(&all.shares)),
            text: |share| format!("{share:.2}"),
            is_higher_better: true,
        });
    }
}

fn apart(figures: &mut Vec<Figure>) {
    let workload = "64 workers, a name each";
    let of = |value: fn(&Apart) -> f64| -> Value {
        Box::new(move |peer| peer.apart.as_ref().map(value))
    };
    figures.push(Figure {
        workload: workload.to_owned(),
        what: "pairs per second",
        value: of(Apart::rate),
        text: grouped,
        is_higher_better: true,
    });
    let mut add = |what, text, value| {
        figures.push(lower(workload.to_owned(), what, text, of(value)));
    };
    add("median of a pair", time, |all| all.time(0.5));
    add("99 %", time, |all| all.time(0.99));
    add("99.9 %", time, |all| all.time(0.999));
    add("longest", time, |all| all.longest_ns as f64);
    add("CPU of the client for a pair", time, |all| {
        all.each(all.client_cpu_seconds)
    });
    add("CPU of the server for a pair", time, |all| {
        all.each(all.server_cpu_seconds)
    });
    add("commands", tenths, |all| all.commands_per_pair);
    add("calls that gave up", grouped, |all| all.gave_up as f64);
    figures.push(Figure {
        workload: workload.to_owned(),
        what: "slowest to fastest worker",
        value: of(|all| median(&all.evenness)),
        text: |share| format!("{share:.2}"),
        is_higher_better: true,
    });
}

fn hand_over(figures: &mut Vec<Figure>) {
    for (what, share) in [("median", 0.5), ("95 %", 0.95), ("longest", 1.0)] {
        let of = move |peer: &Figures| {
            let all = peer.hand_over.as_ref()?;
            Some(quantile(&all.samples_ns, share) as f64)
        };
        figures.push(lower("hand-over".to_owned(), what, time, Box::new(of)));
    }
}

fn held(figures: &mut Vec<Figure>, locks: usize) {
    let workload = format!("{} held locks", grouped(locks as f64));
    let mut add = |what, text, value: fn(&Held) -> Option<f64>| {
        let value = Box::new(move |peer: &Figures| value(&peer.held));
        figures.push(lower(workload.clone(), what, text, value));
    };
    add("seconds to acquire", tenths, |held| {
        Some(held.acquire_seconds)
    });
    add("CPU of the client, % of a core", hundredths, |held| {
        renewing(held, held.client_cpu_seconds * 100.0)
    });
    add("CPU of the server, % of a core", hundredths, |held| {
        renewing(held, held.server_cpu_seconds * 100.0)
    });
    add("script calls per second", tenths, |held| {
        renewing(held, held.script_calls as f64)
    });
    add("lost locks", grouped, |held| Some(held.lost as f64));
}

/// An amount per second; nothing for a peer that did not keep its locks.
fn renewing(held: &Held, amount: f64) -> Option<f64> {
    (held.lost == 0).then(|| amount / held.seconds.max(1e-9))
}

fn lower(workload: String, what: &'static str, text: fn(f64) -> String, value: Value) -> Figure {
    Figure {
        workload,
        what,
        value,
        text,
        is_higher_better: false,
    }
}

/// Nanoseconds with three digits and a unit.
pub fn time(nanos: f64) -> String {
    let micros = nanos / 1e3;
    let (number, unit) = match micros {
        _ if micros < 1e3 => (micros, "us"),
        _ if micros < 1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let digits = match number {
        _ if number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

/// A whole number with commas between thousands.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn tenths(number: f64) -> String {
    format!("{number:.1}")
}

fn hundredths(number: f64) -> String {
    format!("{number:.2}")
}

fn thousandths(number: f64) -> String {
    format!("{number:.3}")
}
