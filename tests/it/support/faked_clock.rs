//! A wall clock that a test can set, for processes that are started with it (`libfaketime`).
//!
//! As where somebody sets the machine's clock, only the wall clock jumps: the monotonic ones run on.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where Linux distributions put it.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// `libfaketime` and `jemalloc`, which Redis is built with, wait for each other at the start of a
/// process. This has Redis use the allocator of the C library; where it is missing, so is the need.
const ALLOCATOR: &str = "libc_malloc_debug.so.0";

pub struct FakedClock(TempDir);

impl FakedClock {
    /// Tells the true time until it is set.
    pub fn new() -> Self {
        let clock = Self(tempfile::tempdir().expect("a directory"));
        clock.set(0);
        clock
    }

    /// So many hours off the true time, from now on.
    pub fn set(&self, hours: i32) {
        self.write(&format!("{hours:+}h"));
    }

    /// So many thousandths faster than the true time passes, for processes that are started from now on.
    pub fn hurry(&self, thousandths: u32) {
        self.write(&format!("+0 x1.{thousandths:03}"));
    }

    fn write(&self, time: &str) {
        // Moved into its place, because it may be read at any moment.
        let new = self.0.path().join("new");
        std::fs::write(&new, format!("{time}\n")).expect("a file");
        std::fs::rename(new, self.file()).expect("a file");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("time")
    }

    /// The variables of a process that goes by this clock.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let library = LIBRARIES.iter().find(|library| Path::new(library).exists());
        let library = library.expect(
            "libfaketime is installed (Debian, Ubuntu and Fedora: package `faketime` or `libfaketime`); \
             `scripts/install faketime` does it",
        );
        [
            ("LD_PRELOAD", library.to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            // Looked at anew whenever the time is asked for.
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // What that variable is called in older releases.
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ]
        .into()
    }

    /// As [`environment`](Self::environment), of a Redis server.
    pub fn environment_of_a_server(&self) -> Vec<(&'static str, String)> {
        let mut variables = self.environment();
        for (_, library) in variables
            .iter_mut()
            .filter(|(name, _)| *name == "LD_PRELOAD")
        {
            *library = format!("{ALLOCATOR} {library}");
        }
        variables
    }
}
