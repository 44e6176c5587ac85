//! A lock and an unlock of a free lock.

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{Pair, quantile};

use super::{Side, alternate, progress};
use crate::commands::commands;
use crate::server::Server;

/// Pairs in a block, and blocks of each peer.
pub const PAIRS: usize = 100;
const BLOCKS: usize = 50;
/// Pairs before the blocks, which are not counted. Java and Node.js compile code while it runs.
const WARM_UP: usize = 2_000;

pub fn measure(sides: &mut [Side], server: &Server) -> Result<()> {
    progress("a lock and an unlock of a free lock");
    let mut times = vec![Vec::new(); sides.len()];
    let call = |side: &mut Side, pairs: usize| {
        let command = format!("pairs {} {pairs}", side.name("pair"));
        side.drivers[0].begin(&command)?;
        side.drivers[0].numbers()
    };
    alternate(sides, 1, |side| call(side, WARM_UP).map(drop))?;
    let names: Vec<_> = sides.iter().map(|side| side.peer.name).collect();
    alternate(sides, BLOCKS, |side| {
        let place = names.iter().position(|name| *name == side.peer.name);
        times[place.ok_or("a side")?].extend(call(side, PAIRS)?);
        Ok(())
    })?;
    for (side, times) in sides.iter_mut().zip(times) {
        let mut result = Ok(Vec::new());
        let sent = commands(&[server.address()], || result = call(side, PAIRS));
        result?;
        side.figures.pair = Pair {
            median_ns: quantile(&times, 0.5),
            p999_ns: quantile(&times, 0.999),
            longest_ns: quantile(&times, 1.0),
            commands: sent as f64 / PAIRS as f64,
        };
    }
    Ok(())
}
