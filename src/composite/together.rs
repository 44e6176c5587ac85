//! One attempt at several names: all of them or none, without a wait.
//!
//! Names of one client in one slot are acquired by one script call. Those of several servers or
//! slots are requested at once, and what was granted is released if some are refused.

use super::grouped::group;
use super::{Call, Missing};
use crate::base::clock::Moment;
use crate::engine::{
    Answer, Ask, HeldLock, LockCall, Refusal, SingleLock, TicketLost, keep, take_without_request,
};
use crate::error::{Error, Result};
use crate::local::{Claim, Granted};
use crate::protocol::Wish;
use crate::request::{Request, request_batch};

/// A request for more names than this looks at no line. It bounds the time of a script.
const LINES: usize = 32;

/// A name that the call holds: its index, and the level.
pub(super) type HeldName = (usize, HeldLock);

/// What an attempt has brought.
pub(super) enum Together {
    Held(Vec<HeldName>),
    /// None of these names is held.
    Refused(Refused),
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

/// A name that is requested.
struct Asked<'a> {
    at: usize,
    call: LockCall<'a>,
    claim: Claim,
}

/// The first name, by its index, that was refused.
type FirstRefused = Option<Refused>;

fn note(first: &mut FirstRefused, at: usize, owner: Owner) {
    if first.is_none_or(|first| at < first.at) {
        *first = Some(Refused { at, owner });
    }
}

/// Requests those of the `missing` names with these indices.
pub(super) fn ask<'a>(
    call: Call<'a>,
    missing: &'a [Missing<'a>],
    rest: &[usize],
) -> Result<Together> {
    let mut entered = Vec::new();
    for &at in rest {
        let call = call.part(missing, at);
        // A ticket that another thread of the process has counts as a refusal.
        let Some(claim) = call.lock.enter_queue(call.begun).claim else {
            let owner = Owner::Unknown;
            return Ok(Together::Refused(Refused { at, owner }));
        };
        entered.push(Asked { at, call, claim });
    }
    // This thread may end idle grants, which it has to release in Redis.
    let _calls = call.begin();
    call.budget.check_interrupt(call.composite.name())?;
    let (mut names, mut asked) = (Vec::new(), Vec::new());
    let mut refused = None;
    for mut one in entered {
        if !call.budget.is_wait_over() && one.claim.has_pause() {
            // The wait for this name alone begins with the pause.
            note(&mut refused, one.at, Owner::Unknown);
        }
        match take_without_request(one.call, &mut one.claim) {
            Ok(Some(level)) => names.push((one.at, level)),
            Ok(None) => asked.push(one),
            Err(TicketLost) => note(&mut refused, one.at, Owner::Unknown),
        }
    }
    let requested = match refused.is_none() && !asked.is_empty() {
        true => request(call, asked, rest.len() == missing.len(), &mut refused),
        false => Ok(Vec::new()),
    };
    let result = match (requested, refused) {
        (Ok(requested), None) => {
            names.extend(requested);
            return Ok(Together::Held(names));
        }
        (Ok(_), Some(refused)) => Ok(Together::Refused(refused)),
        (Err(error), _) => Err(error),
    };
    call.release(names.into_iter().map(|(_, level)| level).collect());
    result
}

/// Requests these names from Redis. Holds none of them if one is refused. The call holds no other
/// names if these `are_all`.
fn request<'a>(
    call: Call<'a>,
    asked: Vec<Asked<'a>>,
    are_all: bool,
    refused: &mut FirstRefused,
) -> Result<Vec<HeldName>> {
    let budget = call.budget;
    let places = asked
        .iter()
        .map(|one| (&one.call.lock.core, &one.call.lock.key));
    let groups = group(places, |_, _| asked[0].call.lock.kind.is_joinable);
    let mut asks: Vec<(Ask<'a>, Wish)> = groups.iter().map(|group| to_ask(&asked, group)).collect();
    let is_alone = are_all && groups.len() == 1;
    // A server that does not reply must not keep the names of the others from other clients.
    let until = match is_alone {
        true => Moment::NEVER,
        false => Moment::now().after(call.core.command_timeout),
    };
    let request = |(ask, wish): &(Ask<'a>, Wish)| Request {
        until,
        ..ask.request(ask.call(wish))
    };
    let requests: Vec<Request<'a>> = asks.iter().map(request).collect();
    let since = budget.unanswered_since().unwrap_or_else(Moment::now);
    budget.set_unanswered_since(Some(since));
    let next_call = |at: usize| {
        let (ask, wish) = &mut asks[at];
        Some(ask.next_copy(wish))
    };
    let results = request_batch(&requests, next_call, budget);
    drop(requests);
    let mut silent = None;
    let mut granted: Vec<(&[usize], Granted)> = Vec::new();
    let mut failure = None;
    for ((group, (ask, _)), result) in groups.iter().zip(&asks).zip(results) {
        let answer = ask.end(result, None);
        if !matches!(answer, Answer::Failed(_)) {
            group.iter().for_each(|&at| asked[at].claim.replied());
        }
        match answer {
            Answer::Granted(grant) => granted.push((group, grant)),
            Answer::Unreplicated { granted: grant, .. } => {
                // The wait for the first name alone finds out whether enough replicas confirm it.
                granted.push((group, grant));
                let first = &asked[group[0]];
                first.call.lock.core.observer.counters.unreplicated.add(1);
                note(refused, first.at, Owner::Unknown);
            }
            Answer::TooLate(_) => note(refused, asked[group[0]].at, Owner::Unknown),
            Answer::Refused(refusal) => {
                let one = &asked[group[refusal.at]];
                note(refused, one.at, Owner::of(&refusal, one.call.lock));
            }
            // The wait for the first name alone goes on until its server replies.
            Answer::Failed(error @ Error::Unavailable { .. }) if !is_alone => {
                note(refused, asked[group[0]].at, Owner::Unknown);
                silent = silent.or(Some(error));
            }
            Answer::Failed(error) => failure = failure.or(Some(error)),
        }
    }
    if silent.is_none() {
        budget.set_unanswered_since(None);
    } else if budget.call_deadline().is_past() {
        failure = failure.or(silent);
    }
    if failure.is_some() || refused.is_some() {
        let mut parts = Vec::new();
        for (group, grant) in &granted {
            parts.extend(group.iter().map(|&at| (asked[at].call, &grant.owner)));
        }
        call.undo(&parts);
        return failure.map_or(Ok(Vec::new()), Err);
    }
    let mut grants: Vec<Option<Granted>> = vec![None; asked.len()];
    for (group, grant) in granted {
        group
            .iter()
            .for_each(|&at| grants[at] = Some(grant.clone()));
    }
    let names = asked.into_iter().zip(grants).filter_map(|(one, grant)| {
        let level = keep(one.call, one.claim, grant?);
        Some((one.at, level))
    });
    Ok(names.collect())
}

/// The request for the names of a group.
fn to_ask<'a>(asked: &[Asked<'a>], group: &[usize]) -> (Ask<'a>, Wish) {
    let LockCall {
        lock,
        terms,
        budget,
        ..
    } = asked[group[0]].call;
    let SingleLock {
        core, key, kind, ..
    } = lock;
    let expected = group.iter().map(|&at| asked[at].claim.begin_request().1);
    let expected = expected.max().unwrap_or(1);
    // In a cluster, each name has another place. A call that does not wait has none.
    let is_one_place = group.len() == 1 || !core.redis.topology.has_slots();
    let is_small = group.len() <= LINES && is_one_place;
    let has_place = kind.has_line && is_small && !budget.is_wait_over();
    let wish = Wish {
        holds: lock.holds_of_a_grant(terms, expected),
        waits: false,
        // A free name may be reserved for a client that was called.
        place: has_place.then(|| core.subscriber.in_line(key, &core.place(key))),
        within: None,
    };
    let locks = group.iter().map(|&at| asked[at].call.lock).collect();
    (Ask::for_all(locks, terms), wish)
}
