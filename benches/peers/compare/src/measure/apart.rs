//! Many workers with a name each.

use std::time::Duration;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::Apart;

use super::{Scale, Side, alternate, progress};
use crate::commands::commands;
use crate::machine::{nanos, now};
use crate::server::Server;

pub const WORKERS: usize = 64;

/// The time in which the workers of a window start, each with a pair.
const LEAD: Duration = Duration::from_millis(500);

pub fn measure(sides: &mut [Side], server: &Server, scale: &Scale) -> Result<()> {
    progress(&format!("apart: {WORKERS} workers, a name each"));
    // The first windows are not counted: Java and Node.js compile code while it runs. A peer whose
    // calls fail beside this number of workers has no figures.
    for side in sides.iter_mut() {
        side.figures.apart = Some(Apart::default());
    }
    let mut first = sides.len();
    alternate(sides, scale.rounds + 1, |side| {
        let is_counted = first == 0;
        first = first.saturating_sub(1);
        let Some(mut all) = side.figures.apart.take() else {
            return Ok(());
        };
        match window(side, server, scale.window, &mut all) {
            Ok(_) if is_counted => side.figures.apart = Some(all),
            Ok(_) => side.figures.apart = Some(Apart::default()),
            Err(error) => eprintln!("WARNING: {error}"),
        }
        Ok(())
    })?;
    for side in sides {
        if side.figures.apart.is_none() {
            continue;
        }
        let mut pairs = Ok(0);
        let sent = commands(&[server.address()], || {
            pairs = window(side, server, scale.window / 4, &mut Apart::default());
        });
        let pairs = pairs?;
        if let Some(all) = &mut side.figures.apart {
            all.commands_per_pair = sent as f64 / pairs.max(1) as f64;
        }
    }
    Ok(())
}

/// Runs one window, adds its figures, and returns the number of all pairs.
fn window(side: &mut Side, server: &Server, length: Duration, all: &mut Apart) -> Result<u64> {
    let start = now() + nanos(LEAD);
    let end = start + nanos(length);
    let name = side.name("apart");
    let driver = &mut side.drivers[0];
    driver.begin(&format!("apart {name} {WORKERS} {start} {end}"))?;
    std::thread::sleep(LEAD);
    let (client, server_cpu) = (driver.cpu_time()?, server.cpu_time()?);
    let words = driver.reply()?;
    all.client_cpu_seconds += (driver.cpu_time()? - client).as_secs_f64();
    all.server_cpu_seconds += (server.cpu_time()? - server_cpu).as_secs_f64();
    let (numbers, times) = words.split_at_checked(6).ok_or("too few words")?;
    let number = |place: usize| numbers[place].parse::<u64>();
    let (inside, slowest, fastest) = (number(1)?, number(4)?, number(5)?);
    all.pairs += inside;
    all.gave_up += number(2)?;
    all.rates.push(inside as f64 / length.as_secs_f64());
    all.longest_ns = all.longest_ns.max(number(3)?);
    all.evenness.push(slowest as f64 / fastest.max(1) as f64);
    all.times.add_words(times)?;
    Ok(number(0)?)
}
