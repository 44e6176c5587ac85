//! One deployment for many tests.

use std::ops::Deref;
use std::sync::LazyLock;

use super::{Fuse, Machine};

/// The use that one test makes of a deployment which serves all tests of this process. Such a
/// test harms no server: it neither kills nor pauses one, nor calls for a failover.
pub struct Shared<D: 'static> {
    deployment: &'static D,
    /// No test that measures times runs meanwhile.
    _machine: Machine,
    /// No test takes for ever; the servers must not be killed for it, so this process is.
    _fuse: Fuse,
}

impl<D> Shared<D> {
    pub fn of(deployment: &'static LazyLock<D>) -> Self {
        let machine = Machine::enter(false);
        Self {
            deployment,
            _machine: machine,
            _fuse: Fuse::of(None),
        }
    }
}

impl<D> Deref for Shared<D> {
    type Target = D;

    fn deref(&self) -> &D {
        self.deployment
    }
}
