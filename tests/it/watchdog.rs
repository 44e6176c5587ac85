//! The watchdog. `faults::renewal` and `faults::hangs` have what can fail in a renewal.

mod confirm;
