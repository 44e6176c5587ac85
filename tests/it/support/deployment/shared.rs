//! One deployment for many tests.

use std::ops::Deref;
use std::sync::LazyLock;

use super::TimeLimit;

/// The use of a deployment that all tests of this process share, by one test. Such a test harms no
/// server: it does not kill or pause one, and starts no failover.
pub struct Shared<D: 'static> {
    deployment: &'static D,
    /// Ends this process if the test takes too long. The servers must not be killed for one test.
    _time_limit: TimeLimit,
}

impl<D> Shared<D> {
    pub fn of(deployment: &'static LazyLock<D>) -> Self {
        Self {
            deployment,
            _time_limit: TimeLimit::start(),
        }
    }
}

impl<D> Deref for Shared<D> {
    type Target = D;

    fn deref(&self) -> &D {
        self.deployment
    }
}
