//! What the library uses of `foldhash`, with the same hashes in each run: else the order of an
//! iteration would differ between two runs with one seed.

pub use real::fast;

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, fast::FixedState>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, fast::FixedState>;

/// The constructors of [`HashMap`].
pub trait HashMapExt {
    /// An empty map.
    fn new() -> Self;
}

impl<K, V> HashMapExt for HashMap<K, V> {
    fn new() -> Self {
        Self::default()
    }
}

/// The constructors of [`HashSet`].
pub trait HashSetExt {
    /// An empty set.
    fn new() -> Self;
}

impl<K> HashSetExt for HashSet<K> {
    fn new() -> Self {
        Self::default()
    }
}
