//! Which group of servers has which slots of a cluster.

use std::net::SocketAddr;

/// The number of slots.
const SLOTS: u16 = 16_384;

/// A slot that moves from one group to another.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub struct Slots {
    /// The group of each slot.
    owners: Vec<usize>,
    /// By group, as far as the other servers know.
    pub masters: Vec<SocketAddr>,
    pub moving: Option<Move>,
}

impl Slots {
    /// Each group has an equal part.
    pub fn of(masters: Vec<SocketAddr>) -> Self {
        let share = usize::from(SLOTS).div_ceil(masters.len());
        Self {
            owners: (0..usize::from(SLOTS)).map(|slot| slot / share).collect(),
            masters,
            moving: None,
        }
    }

    pub fn owner(&self, slot: u16) -> usize {
        self.owners[usize::from(slot)]
    }

    /// True if a slot moves from or to the group.
    pub fn is_moving(&self, group: usize) -> bool {
        self.moving
            .is_some_and(|moving| group == moving.from || group == moving.to)
    }

    /// Ends the move: the slot belongs to the new group.
    pub fn assign(&mut self) {
        if let Some(Move { slot, to, .. }) = self.moving.take() {
            self.owners[usize::from(slot)] = to;
        }
    }

    /// The reply to CLUSTER SLOTS.
    pub fn reply(&self) -> Vec<u8> {
        let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
        for (slot, &owner) in self.owners.iter().enumerate() {
            match ranges.last_mut() {
                Some((_, last, before)) if *before == owner => *last = slot,
                _ => ranges.push((slot, slot, owner)),
            }
        }
        let mut reply = format!("*{}\r\n", ranges.len());
        for (first, last, owner) in ranges {
            let master = self.masters[owner];
            let (host, port) = (master.ip().to_string(), master.port());
            reply += &format!(
                "*3\r\n:{first}\r\n:{last}\r\n*3\r\n${}\r\n{host}\r\n:{port}\r\n$2\r\nid\r\n",
                host.len()
            );
        }
        reply.into_bytes()
    }
}

/// The slot of a key or a channel: that of what its first braces enclose, if they do.
pub fn slot_of(key: &[u8]) -> u16 {
    let enclosed = || {
        let open = key.iter().position(|byte| *byte == b'{')?;
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    };
    crc16(enclosed().unwrap_or(key)) % SLOTS
}

fn crc16(text: &[u8]) -> u16 {
    text.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum: u16, _| {
            let shifted = sum << 1;
            if sum & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}
