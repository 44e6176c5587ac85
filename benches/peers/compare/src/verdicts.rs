//! What a run says about the peers in words.

use crate::figures::{self, Figure};
use crate::results::{Figures, Results};
use crate::table::wrapped;

/// The figures in which a peer is better than leasehold, as a list.
pub fn better_than_leasehold(results: &Results) -> String {
    let all = figures::all(results);
    let mut text =
        "Better than leasehold in this run (leasehold's figure in parentheses):\n\n".to_owned();
    for peer in &results.peers {
        let parts: Vec<_> = better(results, &all, peer)
            .map(|(figure, ours)| {
                let (workload, what) = (&figure.workload, figure.what);
                let (theirs, ours) = (figure.text(peer), figure.text(ours));
                format!("{workload}, {what}: {theirs} ({ours})")
            })
            .collect();
        if !parts.is_empty() {
            text += &format!("* {}: {}\n", peer.name, parts.join("; "));
        }
    }
    text
}

/// The workloads in which peers are better than leasehold, as a sentence.
pub fn summary(results: &Results) -> String {
    let all = figures::all(results);
    let mut workloads: Vec<(&str, Vec<String>)> = Vec::new();
    for figures in all.chunk_by(|first, second| first.workload == second.workload) {
        let of = |peer: &Figures| {
            let what: Vec<_> = better(results, figures, peer)
                .map(|(figure, _)| figure.what)
                .collect();
            (!what.is_empty()).then(|| format!("{} ({})", peer.name, what.join(", ")))
        };
        let peers: Vec<_> = results.peers.iter().filter_map(of).collect();
        if !peers.is_empty() {
            workloads.push((&figures[0].workload, peers));
        }
    }
    if workloads.is_empty() {
        return wrapped("No other lock was better than leasehold in a figure of this run.");
    }
    let parts = workloads
        .iter()
        .map(|(workload, peers)| format!("{workload}: {}", peers.join(", ")));
    wrapped(&format!(
        "Better than leasehold in this run: {}.",
        parts.collect::<Vec<_>>().join("; ")
    ))
}

/// The figures in which a peer is better than leasehold, with leasehold's figures.
fn better<'a>(
    results: &'a Results,
    figures: &'a [Figure],
    peer: &'a Figures,
) -> impl Iterator<Item = (&'a Figure, &'a Figures)> {
    let ours = results.peers.iter().find(|peer| peer.name == "leasehold");
    let figures = figures
        .iter()
        .filter_map(move |figure| Some((figure, ours?)));
    figures.filter(|(figure, ours)| figure.is_better(peer, ours))
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
