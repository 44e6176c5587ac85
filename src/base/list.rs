//! A list that nearly always has one element: the parts of a lock, their holds, their requests.

use smallvec::SmallVec;

/// Stores one element in place. So a lock of one part needs no allocation for its lists.
pub(crate) type List<T> = SmallVec<[T; 1]>;
