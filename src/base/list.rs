//! A list that nearly always has one element: the locks of one call, their holds, their requests.

use smallvec::SmallVec;

/// Stores one element in place. So a call for one lock needs no allocation for its lists.
pub(crate) type List<T> = SmallVec<[T; 1]>;
