//! The line of a read-write lock in all states, and each rule broken once.

use super::machine::{Bounds, Planted};
use super::promises::{
    BESIDE_JAVA, CALLED, DOWNGRADED, KEPT, KEPT_OUT, ONCE, ORDER, OVERTAKEN, PROMISES, TIMERS,
    TOGETHER,
};
use super::state::Role::{self, Reader, Writer};
use crate::check::{self, broken_of};

const READER: &[Role] = &[Reader];
const WRITER: &[Role] = &[Writer];
const EITHER: &[Role] = &[Writer, Reader];

fn library<const N: usize>(clients: [&'static [Role]; N], faults: u8) -> Bounds {
    Bounds {
        planted: None,
        clients: clients.to_vec(),
        java: &[],
        has_downgrades: false,
        faults,
    }
}

fn beside_java(bounds: Bounds) -> Bounds {
    Bounds {
        java: &[Writer, Reader],
        ..bounds
    }
}

fn beside_readers(bounds: Bounds) -> Bounds {
    Bounds {
        java: READER,
        ..bounds
    }
}

fn with_downgrades(bounds: Bounds) -> Bounds {
    Bounds {
        has_downgrades: true,
        ..bounds
    }
}

fn breaks_no_promise(bounds: Bounds) {
    let may_occur = bounds.clone();
    let readers = bounds.clients.iter().filter(|roles| roles.contains(&Reader)).count();
    let broken = broken_of(bounds, &PROMISES, |name| match name {
        TOGETHER => readers + usize::from(!may_occur.java.is_empty()) > 1,
        KEPT_OUT => readers > 1 && may_occur.clients.len() > 2,
        DOWNGRADED => may_occur.has_downgrades && readers > 1,
        BESIDE_JAVA => !may_occur.java.is_empty() && may_occur.clients.len() > 1,
        _ => true,
    });
    assert_eq!(broken, [""; 0]);
}

#[test]
fn the_promises_are_kept_without_faults() {
    breaks_no_promise(library([WRITER, READER, READER], 0));
    breaks_no_promise(with_downgrades(library([EITHER, EITHER], 0)));
    breaks_no_promise(beside_java(library([WRITER, READER], 0)));
}

#[test]
fn each_rule_is_needed() {
    let two = || library([WRITER, READER], 0);
    let either = || library([EITHER, EITHER], 1);
    let three = || library([WRITER, READER, READER], 0);
    let java = || beside_java(library([WRITER, READER], 0));
    let fault = || library([WRITER, READER], 1);
    for (planted, bounds, promise) in [
        (Planted::NotMarked, two(), ORDER),
        (Planted::Barges, two(), ORDER),
        (Planted::DeadKept, fault(), CALLED),
        (Planted::MarkKept, two(), KEPT),
        (Planted::LeavesSilently, two(), CALLED),
        (Planted::LeavesReadersSilently, three(), CALLED),
        (Planted::LeavesJavaSilently, java(), CALLED),
        (Planted::LeavesJavaReaders, java(), CALLED),
        (Planted::DowngradesSilently, with_downgrades(two()), CALLED),
        (Planted::ChainBroken, three(), CALLED),
        (Planted::PassesWriter, three(), OVERTAKEN),
        (Planted::PassesCalledReader, beside_readers(three()), OVERTAKEN),
        (Planted::NotProbed, library([WRITER, READER, READER], 1), TIMERS),
        (Planted::RoleKept, with_downgrades(either()), CALLED),
        (Planted::OnlyIfCalledIgnored, two(), CALLED),
        (Planted::CallIgnored, fault(), CALLED),
        (Planted::LastCallIgnored, fault(), CALLED),
        (Planted::ReservedWithoutEnd, fault(), TIMERS),
        (Planted::OldPlaceKept, fault(), ONCE),
        (Planted::NotAskedAfterConfirmation, two(), CALLED),
        (Planted::RankStale, java(), CALLED),
        (Planted::MessageForgotten, two(), CALLED),
    ] {
        let planted = Some(planted);
        check::breaks(Bounds { planted, ..bounds }, promise);
    }
}

#[test]
#[ignore = "probe"]
fn probe() {
    let roles = std::env::var("ROLES").unwrap_or("WR".into());
    let faults: u8 = std::env::var("FAULTS").map_or(0, |f| f.parse().unwrap());
    let java = std::env::var("JAVA").unwrap_or_default();
    let bounds = Bounds {
        planted: None,
        clients: roles
            .chars()
            .map(|c| match c {
                'W' => WRITER,
                'R' => READER,
                _ => EITHER,
            })
            .collect(),
        java: match &*java {
            "" => &[],
            "R" => READER,
            "W" => WRITER,
            _ => EITHER,
        },
        has_downgrades: std::env::var("DOWN").is_ok(),
        faults,
    };
    let broken = broken_of(bounds, &PROMISES, |_| false);
    assert_eq!(broken, [""; 0]);
}
