//! What a run says about each peer, apart from its figures.

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{Contended, Figures, Results, quantile};
use leasehold_peers_compare::table::{grouped, time};

/// Prints which peers were faster than leasehold, and which did not exclude. Fails if leasehold did
/// not.
pub fn verdicts(results: &Results) -> Result<()> {
    for peer in &results.peers {
        let lost: u64 = peer.contended.values().map(|all| all.lost_additions).sum();
        if lost > 0 {
            println!(
                "\n{}: {lost} additions LOST: two workers held the lock",
                peer.name
            );
        }
    }
    if let Some(ours) = results.peers.iter().find(|peer| peer.name == "leasehold") {
        let others = results.peers.iter().filter(|peer| peer.name != ours.name);
        let faster: Vec<_> = others.flat_map(|other| faster(other, ours)).collect();
        println!(
            "\nfaster than leasehold: {}",
            match faster.as_slice() {
                [] => "no peer in this run".to_owned(),
                lines => lines.join("; "),
            }
        );
        if ours.contended.values().any(|all| all.lost_additions > 0) {
            return Err("leasehold did not exclude".into());
        }
    }
    Ok(())
}

fn faster(other: &Figures, ours: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |is_faster: bool, what: &str, theirs: String, ours: String| {
        if is_faster {
            lines.push(format!("{}, {what}: {theirs} ({ours})", other.name));
        }
    };
    let mut shorter = |what: &str, theirs: u64, ours: u64| {
        add(theirs < ours, what, time(theirs), time(ours));
    };
    shorter(
        "a free lock, median",
        other.pair.median_ns,
        ours.pair.median_ns,
    );
    shorter("a free lock, 99.9 %", other.pair.p999_ns, ours.pair.p999_ns);
    let hand_over = |peer: &Figures| {
        let samples = peer.hand_over.as_ref().map(|all| all.samples_ns.clone());
        quantile(&samples.unwrap_or_default(), 0.5)
    };
    shorter("hand-over, median", hand_over(other), hand_over(ours));
    for (name, all) in &other.contended {
        let Some(our) = ours.contended.get(name) else {
            continue;
        };
        let wait = |all: &Contended| all.waits.quantile(0.5) as u64;
        shorter(&format!("{name}, median wait"), wait(all), wait(our));
        shorter(
            &format!("{name}, longest wait"),
            all.longest_ns,
            our.longest_ns,
        );
    }
    for (name, all) in &other.contended {
        if let Some(our) = ours.contended.get(name) {
            let (theirs, our) = (all.rate(), our.rate());
            add(
                theirs > our,
                name,
                grouped(theirs) + "/s",
                grouped(our) + "/s",
            );
        }
    }
    let (theirs, our) = (other.held.client_cpu_seconds, ours.held.client_cpu_seconds);
    let seconds = |number: f64| format!("{number:.2} s");
    add(
        theirs < our,
        "CPU for held locks",
        seconds(theirs),
        seconds(our),
    );
    lines
}
