//! The scripts that a server and a proxy know before any client sends them.

use std::collections::HashMap;
use std::sync::Arc;

/// The names and the sources of scripts, by the hashes under which servers know them. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct KnownScripts(Arc<HashMap<String, (Arc<str>, String)>>);

impl KnownScripts {
    /// Scripts with these names and sources.
    pub fn new<'a>(named: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let named = named.into_iter();
        let by_hash =
            named.map(|(name, source)| (hash_of(source.as_bytes()), (name.into(), source)));
        Self(Arc::new(by_hash.collect()))
    }

    pub(crate) fn source(&self, hash: &str) -> Option<&str> {
        self.0.get(hash).map(|(_, source)| &**source)
    }

    /// The hashes and the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, Arc<str>)> {
        let by_hash = self.0.iter();
        by_hash.map(|(hash, (name, _))| (hash.clone(), Arc::clone(name)))
    }
}

/// The hash under which a server knows a script.
pub(crate) fn hash_of(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
