//! What the library uses of `uuid`, with random bytes from the seed of the simulation.

use std::fmt;

use leasehold_simulation_world::random;

/// A UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(real::Uuid);

/// Sets the version and the variant of given bytes.
#[derive(Debug)]
pub struct Builder(real::Builder);

impl Uuid {
    /// A random UUID.
    #[must_use]
    pub fn new_v4() -> Self {
        Self(real::Builder::from_random_bytes(random::bytes()).into_uuid())
    }

    /// Its bytes.
    #[must_use]
    pub fn into_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Its first and its last 64 bits.
    #[must_use]
    pub fn as_u64_pair(&self) -> (u64, u64) {
        self.0.as_u64_pair()
    }

    /// Without hyphens.
    #[must_use]
    pub fn simple(self) -> real::fmt::Simple {
        self.0.simple()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Builder {
    /// A UUID of version 8.
    #[must_use]
    pub const fn from_custom_bytes(bytes: [u8; 16]) -> Self {
        Self(real::Builder::from_custom_bytes(bytes))
    }

    /// The UUID.
    #[must_use]
    pub const fn into_uuid(self) -> Uuid {
        Uuid(self.0.into_uuid())
    }
}
