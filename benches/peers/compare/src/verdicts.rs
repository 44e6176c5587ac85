//! What a run says about the peers in words.

use crate::results::{Contended, Figures, Results, quantile};
use crate::table::{grouped, time};

/// The figures in which a peer is better than leasehold, as a paragraph.
pub fn better_than_leasehold(results: &Results) -> String {
    let ours = results.peers.iter().find(|peer| peer.name == "leasehold");
    let others = results.peers.iter().filter(|peer| peer.name != "leasehold");
    let lines: Vec<_> = ours.map_or_else(Vec::new, |ours| {
        others.filter_map(|other| better(other, ours)).collect()
    });
    match lines.as_slice() {
        [] => "No peer was better than leasehold in a figure of this run.\n".to_owned(),
        _ => format!(
            "Better than leasehold in this run (leasehold's figure in parentheses):\n\n{}",
            lines.concat()
        ),
    }
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

fn better(other: &Figures, ours: &Figures) -> Option<String> {
    let mut parts = Vec::new();
    let mut compare = |what: &str, is_better: bool, theirs: String, ours: String| {
        if is_better {
            parts.push(format!("{what} {theirs} ({ours})"));
        }
    };
    let (pair, our_pair) = (&other.pair, &ours.pair);
    for (what, theirs, ours) in [
        ("free lock, median", pair.median_ns, our_pair.median_ns),
        ("free lock, 99.9 %", pair.p999_ns, our_pair.p999_ns),
        (
            "hand-over, median",
            hand_over(other, 0.5),
            hand_over(ours, 0.5),
        ),
        (
            "hand-over, 95 %",
            hand_over(other, 0.95),
            hand_over(ours, 0.95),
        ),
    ] {
        compare(what, theirs < ours, time(theirs), time(ours));
    }
    for (workload, all) in &other.contended {
        let Some(our) = ours.contended.get(workload) else {
            continue;
        };
        let (theirs, rate) = (all.rate(), our.rate());
        let rates = (grouped(theirs) + "/s", grouped(rate) + "/s");
        compare(workload, theirs > rate, rates.0, rates.1);
        let wait = |all: &Contended| all.waits.quantile(0.5) as u64;
        for (what, theirs, ours) in [
            ("median wait", wait(all), wait(our)),
            ("longest wait", all.longest_ns, our.longest_ns),
        ] {
            let what = format!("{workload}, {what}");
            compare(&what, theirs < ours, time(theirs), time(ours));
        }
    }
    let (theirs, our) = (&other.held, &ours.held);
    let cpu = [theirs, our].map(|held| held.client_cpu_seconds);
    // A peer that does not renew its locks has nothing to do.
    let is_better = cpu[0] < cpu[1] && theirs.lost == 0;
    let [theirs, ours] = cpu.map(|seconds| format!("{seconds:.2} s"));
    compare("CPU for held locks", is_better, theirs, ours);
    (!parts.is_empty()).then(|| format!("* {}: {}\n", other.name, parts.join("; ")))
}

fn hand_over(peer: &Figures, share: f64) -> u64 {
    let samples = peer.hand_over.as_ref();
    samples.map_or(0, |all| quantile(&all.samples_ns, share))
}
