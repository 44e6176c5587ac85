//! What a run says about the peers in words.

use crate::figures::{self, Figure};
use crate::results::{Figures, Results};
use crate::table::wrapped;

/// The figures in which a peer is better than the first one, which is leasehold unless `--peers`
/// excludes it, as a list.
pub fn better_than_first(results: &Results) -> String {
    let (ours, all) = (&results.peers[0], figures::all(results));
    let mut lines = String::new();
    for peer in &results.peers {
        let better = all.iter().filter(|figure| figure.is_better(peer, ours));
        let part = |figure: &Figure| {
            let (theirs, ours) = (figure.text(peer), figure.text(ours));
            format!("{}, {}: {theirs} ({ours})", figure.workload, figure.what)
        };
        let parts: Vec<_> = better.map(part).collect();
        if !parts.is_empty() {
            lines += &format!("* {}: {}\n", peer.name, parts.join("; "));
        }
    }
    let ours = &ours.name;
    format!("Better than {ours} in this run ({ours}'s figure in parentheses):\n\n{lines}")
}

/// The same without the figures: a line for each workload.
pub fn summary(results: &Results) -> String {
    let ours = &results.peers[0];
    let mut by_workload: Vec<(&str, Vec<String>)> = Vec::new();
    let all = figures::all(results);
    for figure in &all {
        let peers = results.peers.iter();
        let better = peers.filter(|peer| figure.is_better(peer, ours));
        let names: Vec<_> = better.map(|peer| peer.name.as_str()).collect();
        let who = match names.len() {
            0 => continue,
            all if all + 1 == results.peers.len() => "all others".to_owned(),
            _ => names.join(", "),
        };
        let part = format!("{} ({who})", figure.what);
        match by_workload.last_mut() {
            Some((workload, parts)) if *workload == figure.workload => parts.push(part),
            _ => by_workload.push((&figure.workload, vec![part])),
        }
    }
    let ours = &ours.name;
    let figures = "`benches/peers/README.md` has all figures and the workloads.";
    if by_workload.is_empty() {
        return wrapped(&format!(
            "In this run no other lock was better than {ours} in any figure. {figures}"
        ));
    }
    let lines = by_workload.iter();
    let lines = lines.map(|(workload, parts)| format!("* {workload}: {}\n", parts.join("; ")));
    let head =
        format!("Figures in which other locks were better than {ours} in this run. {figures}");
    format!("{}\n{}", wrapped(&head), lines.collect::<String>())
}

/// Peers whose holders were not alone, as lines.
pub fn without_exclusion(results: &Results) -> Vec<String> {
    let lost = |peer: &Figures| peer.contended.values().map(|all| all.lost_additions).sum();
    let peers = results.peers.iter().map(|peer| (peer, lost(peer)));
    let failed = peers.filter(|(_, lost): &(_, u64)| *lost > 0);
    let line = |(peer, lost): (&Figures, u64)| {
        format!(
            "{}: {lost} additions lost, because two workers held the lock",
            peer.name
        )
    };
    failed.map(line).collect()
}
