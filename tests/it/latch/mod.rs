//! Latches: threads wait until a count is zero.
