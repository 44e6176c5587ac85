//! A node's table of all nodes: `CLUSTER NODES`, and the file in the same format.

use std::ops::RangeInclusive;

use super::{HOST, Server};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub port: u16,
    pub id: String,
    /// For a replica: its primary.
    pub primary: Option<String>,
    /// The link of this node to that one is down.
    pub suspected: bool,
    pub slots: Vec<(u16, u16)>,
}

impl Entry {
    pub fn owns(&self, slot: u16) -> bool {
        let mut ranges = self.slots.iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// The table of a node; `None` if it is not up or does not reply.
pub fn seen_by(node: &Server) -> Option<Vec<Entry>> {
    let nodes = redis::cmd("CLUSTER").arg("NODES").clone();
    let text: String = node.is_up().then(|| node.try_ask(&nodes))??;
    let mut entries: Vec<Entry> = text.lines().map(parse).collect::<Option<_>>()?;
    entries.sort();
    Some(entries)
}

/// `<id> <host>:<port>@<bus port>[,<more>] <flags> <primary> <ping> <pong> <epoch> <link> <slot>..`
fn parse(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = fields.get(1)?.split('@').next()?;
    let flags = fields.get(2)?;
    let primary = *fields.get(3)?;
    // A moving slot is listed as well, in brackets.
    let slots = fields.iter().skip(8).filter(|slot| !slot.starts_with('['));
    let range = |text: &&str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    Some(Entry {
        id: fields[0].to_owned(),
        port: address.rsplit(':').next()?.parse().ok()?,
        primary: (primary != "-").then(|| primary.to_owned()),
        suspected: flags.contains("fail"),
        slots: slots.map(range).collect::<Option<_>>()?,
    })
}

/// The configuration of a node before it starts.
pub struct Planned {
    pub id: String,
    pub port: u16,
    pub bus: u16,
}

/// The `nodes.conf` of one node: each primary with its slots, and its one replica.
pub fn file(
    myself: &Planned,
    shards: &[(&Planned, &Planned)],
    slots: &[RangeInclusive<u16>],
) -> String {
    let mut text = String::new();
    for (index, ((primary, replica), slots)) in shards.iter().zip(slots).enumerate() {
        let epoch = index + 1;
        let mut line = |node: &Planned, role: String, slots: String| {
            let Planned { id, port, bus } = node;
            let me = if *id == myself.id { "myself," } else { "" };
            text += &format!("{id} {HOST}:{port}@{bus} {me}{role} 0 0 {epoch} connected{slots}\n");
        };
        let slots = format!(" {}-{}", slots.start(), slots.end());
        line(primary, "master -".into(), slots);
        line(replica, format!("slave {}", primary.id), String::new());
    }
    text + &format!("vars currentEpoch {} lastVoteEpoch 0\n", shards.len())
}
