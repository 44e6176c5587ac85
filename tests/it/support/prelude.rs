//! What many tests use.

pub use std::collections::{HashMap, HashSet};
pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::thread;
pub use std::time::{Duration, Instant};

pub use crossbeam_channel::{Receiver, bounded, unbounded};
pub use leasehold::{
    Error, Interrupt, Lease, LeasedSemaphore, Lock, LockClient, LockClientBuilder, LockEvent,
    LockGuard, LostReason, OwnedGuard, PermitGuard, ReadWriteLock, RedLock, ReentrantLock,
    Subscription,
};
pub use redis::Connection;

pub use crate::faults::in_redis;
pub use crate::faults::proxied_server::{
    ProxiedServer, is_change_without_reply, is_not_released, is_unavailable, proxy_error,
    unanswered,
};

pub use super::child::{self, Process};
pub use super::deployment::{ClusterDeployment, Independent, Replicated, SentinelDeployment};
pub(crate) use super::outcome::assert_error;
pub use super::outcome::{
    assert_invalid, assert_lost, every_acquire, every_call, lost_events, stay_waiting,
};
pub use super::process::Task;
pub use super::proxy::{self, Fault, Gate};
pub use super::server::Server;
pub use super::timing::{
    A_WHILE, LEASE, Millis, SLIP, SOON, eventually, eventually_some, millis, throughout, within,
};
pub use super::traffic::{self, Monitor};
pub(crate) use super::{Stop, assert_matches};
pub use super::{builder, client, is_free, logs, long, on_another_thread, pair, unique};
