//! One attempt at several names: all of them or none, without a wait.
//!
//! Names of one client in one slot are acquired by one script call. Those of several servers or
//! slots are requested at once, and what was granted is released if some are refused.

use super::grouped::group;
use super::seats::{Seat, Seats};
use super::{CompositeCall, Missing, Needed};
use crate::base::Moment;
use crate::engine::{Ask, HeldLock, NotGranted, SingleLock};
use crate::error::Result;
use crate::local::{Claim, Granted};
use crate::protocol::{AcquireOptions, Refusal};

/// A request for more names than this looks at no line. It bounds the time of a script.
const LINES: usize = 32;

/// A name that the call holds: its index, and the level.
pub(super) type HeldName = (usize, HeldLock);

/// What an attempt has brought.
pub(super) enum Together {
    Held(Vec<HeldName>),
    /// None of these names is held. With the ticket of the name that was refused, if no other
    /// thread of this client has it: a thread that came later must not get it first.
    Refused(Refused, Option<Claim>),
}

/// A name that is not free, or that the call has to wait for alone.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub(super) at: usize,
    pub(super) owner: Owner,
}

/// Who has a name that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This process, or it is not known.
    Unknown,
    /// Another client of this library, or none: the name is reserved.
    Client,
    Redisson,
}

impl Refused {
    /// A refusal without a known owner.
    fn by_unknown(at: usize) -> Self {
        let owner = Owner::Unknown;
        Self { at, owner }
    }
}

impl Owner {
    /// Who has the lock, according to this refusal.
    fn of(refusal: &Refusal, lock: &SingleLock) -> Self {
        if refusal.is_of_client(lock) {
            Self::Unknown
        } else if refusal.is_foreign() {
            Self::Redisson
        } else {
            Self::Client
        }
    }
}

/// Requests those of the `missing` names with these indices.
pub(super) fn ask<'a>(
    call: CompositeCall<'a>,
    missing: &'a [Missing<'a>],
    rest: &[usize],
) -> Result<Together> {
    let mut seats = Seats::new(call, missing, rest.iter().copied());
    let enter = |seat: &Seat<'_>| seat.part.lock.enter_queue(seat.part.begun).claim;
    let claims: Vec<Option<Claim>> = seats.seats.iter().map(enter).collect();
    // This thread may end idle grants, which it has to release in Redis.
    let _calls = call.begin();
    call.budget.check_interrupt(call.composite.name())?;
    // A ticket that another thread of the process has counts as a refusal.
    if let Some(first) = claims.iter().position(Option::is_none) {
        // A later name may be idle for this thread, which takes it, and so releases it: otherwise
        // it would keep that name from other clients, and wait for an earlier one.
        for (seat, claim) in seats.seats.iter_mut().zip(claims).skip(first + 1) {
            let _ = claim.map(|claim| seat.take(claim));
        }
        seats.undo();
        let at = seats.seats[first].at;
        return Ok(Together::Refused(Refused::by_unknown(at), None));
    }
    let mut refused = Vec::new();
    for (seat, claim) in seats.seats.iter_mut().zip(claims.into_iter().flatten()) {
        // The wait for this name alone begins with the pause.
        let has_pause = !call.budget.is_wait_over() && claim.has_pause();
        if !seat.take(claim) || has_pause {
            refused.push(Refused::by_unknown(seat.at));
        }
    }
    let requested = match refused.is_empty() {
        true => request(&mut seats, rest.len() == missing.len(), &mut refused),
        false => Ok(()),
    };
    let first = refused.into_iter().min_by_key(|refused| refused.at);
    if let (Ok(()), None) = (&requested, first) {
        return Ok(Together::Held(seats.keep()));
    }
    let claim = first.and_then(|first| seats.take_claim(first.at));
    seats.undo();
    requested?;
    Ok(match first {
        Some(refused) => Together::Refused(refused, claim),
        None => Together::Held(Vec::new()),
    })
}

/// Requests these names from Redis. Adds those that are refused. The call holds no other names if
/// these `are_all`.
fn request(seats: &mut Seats<'_>, are_all: bool, refused: &mut Vec<Refused>) -> Result<()> {
    let CompositeCall { core, budget, .. } = seats.call;
    let seats = &mut seats.seats;
    let locks = seats.iter().map(|seat| seat.part.lock);
    let mut groups = group(locks.map(|lock| (&lock.core, &lock.key)), |one, _| {
        seats[one].part.lock.kind.is_joinable
    });
    for group in &mut groups {
        group.retain(|&at| seats[at].is_asked());
    }
    groups.retain(|group| !group.is_empty());
    let mut asks: Vec<(Ask<'_>, AcquireOptions)> =
        groups.iter().map(|group| to_ask(seats, group)).collect();
    let is_alone = are_all && groups.len() == 1;
    // A server that does not reply must not keep the names of the others from other clients.
    let until = match is_alone {
        true => Moment::NEVER,
        false => Moment::now().after(core.command_timeout),
    };
    let since = budget.unanswered_since().unwrap_or_else(Moment::now);
    budget.set_unanswered_since(Some(since));
    let answers = Needed::All.ask(&mut asks, until, budget);
    let (mut silent, mut failure) = (None, None);
    for (group, answer) in groups.iter().zip(answers) {
        let first = &seats[group[0]];
        // The wait for the first name of the group alone finds out more.
        let by_unknown = Refused::by_unknown(first.at);
        if !matches!(answer, Err(NotGranted::Failed(..))) {
            let claims = group.iter().filter_map(|&at| seats[at].claim.as_ref());
            claims.for_each(Claim::replied);
        }
        match answer {
            Ok(granted) => give(seats, group, &granted),
            Err(NotGranted::TooLate(_)) => refused.push(by_unknown),
            Err(NotGranted::Refused(refusal)) => {
                let Seat { at, part, .. } = seats[group[refusal.at]];
                let owner = Owner::of(&refusal, part.lock);
                refused.push(Refused { at, owner });
            }
            Err(NotGranted::Failed(_, error)) if error.is_transient() => {
                refused.push(by_unknown);
                silent = silent.or(Some(error));
            }
            Err(NotGranted::Failed(_, error)) => failure = failure.or(Some(error)),
        }
    }
    if silent.is_none() {
        budget.set_unanswered_since(None);
    } else if budget.call_deadline().is_past() {
        failure = failure.or(silent);
    }
    failure.map_or(Ok(()), Err)
}

/// Notes a grant of the names of a group.
fn give(seats: &mut [Seat<'_>], group: &[usize], granted: &Granted) {
    for &at in group {
        seats[at].granted = Some(granted.clone());
    }
}

/// The request for the names of a group.
fn to_ask<'a>(seats: &[Seat<'a>], group: &[usize]) -> (Ask<'a>, AcquireOptions) {
    let part = seats[group[0]].part;
    let SingleLock { core, key, .. } = part.lock;
    let expected = group.iter().map(|&at| seats[at].begin_request());
    let expected = expected.max().unwrap_or(1);
    // In a cluster, each name has another place. A call that does not wait has none.
    let is_one_place = group.len() == 1 || !core.redis.topology.has_slots();
    let is_small = group.len() <= LINES && is_one_place;
    let has_place = part.lock.kind.has_line && is_small && !part.budget.is_wait_over();
    let options = AcquireOptions {
        holds: part.lock.holds_of_a_grant(part.terms, expected),
        // A free name may be reserved for a client that was called.
        place: has_place.then(|| core.subscriber.in_line(key, &core.place(key))),
        ..AcquireOptions::default()
    };
    let locks = group.iter().map(|&at| seats[at].part.lock).collect();
    (Ask::for_all(locks, part.terms), options)
}
