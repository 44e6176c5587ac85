//! The numbers of requests that Redis executes at most once, and of which it records the replies.
//!
//! Each request under way has a lane of its own. A lane has one request after another, with rising
//! numbers, and Redis keeps the last record of each lane. So the records of a client are as many as
//! its requests under way.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::Moment;

/// The lanes of one client.
#[derive(Debug, Default)]
pub(crate) struct RequestLanes(Mutex<LaneTable>);

/// Its mutex protects: a lane has one request at a time, and the next one has a larger number.
#[derive(Debug, Default)]
struct LaneTable {
    last_number: u64,
    lanes: u32,
    /// The smallest one is used first.
    free: BTreeSet<u32>,
    /// Lanes whose last request may still be executed or undone, until the given moment.
    retired: VecDeque<(Moment, u32)>,
}

/// A request under way. Dropping it frees its lane.
#[derive(Debug)]
pub(crate) struct RequestId<'a> {
    lanes: &'a RequestLanes,
    pub(crate) lane: u32,
    pub(crate) number: u64,
}

impl RequestLanes {
    pub(crate) fn next(&self) -> RequestId<'_> {
        let now = Moment::now();
        let mut state = self.0.lock();
        while let Some(&(until, lane)) = state.retired.front()
            && until <= now
        {
            state.retired.pop_front();
            state.free.insert(lane);
        }
        let lane = state.free.pop_first().unwrap_or_else(|| {
            state.lanes += 1;
            state.lanes
        });
        state.last_number += 1;
        RequestId {
            lanes: self,
            lane,
            number: state.last_number,
        }
    }
}

impl RequestId<'_> {
    /// Keeps the lane from other requests for `time`, because copies of this one may still be under
    /// way.
    pub(crate) fn retire(self, time: Duration) {
        let until = Moment::now().after(time);
        self.lanes.0.lock().retired.push_back((until, self.lane));
        // A drop would free the lane.
        std::mem::forget(self);
    }
}

impl Drop for RequestId<'_> {
    fn drop(&mut self) {
        self.lanes.0.lock().free.insert(self.lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_used_again_with_a_larger_number() {
        let lanes = RequestLanes::default();
        let (one, two) = (lanes.next(), lanes.next());
        assert_eq!((one.lane, two.lane), (1, 2));
        assert!(two.number > one.number);
        drop(two);
        drop(one);
        let three = lanes.next();
        assert_eq!((three.lane, three.number), (1, 3));
    }

    #[test]
    fn a_lane_of_an_unclear_request_is_not_used_for_a_while() {
        let lanes = RequestLanes::default();
        lanes.next().retire(Duration::from_secs(60));
        assert_eq!(lanes.next().lane, 2);
        let lanes = RequestLanes::default();
        lanes.next().retire(Duration::ZERO);
        assert_eq!(lanes.next().lane, 1);
    }
}
