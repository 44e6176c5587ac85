//! A wall clock that a test can set, for processes that are started with it (`libfaketime`).
//!
//! Only the wall clock jumps, as when a machine's clock is set. The monotonic clocks run on.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The paths in Linux distributions.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// `libfaketime` and `jemalloc`, with which Redis is built, deadlock at the start of a process.
/// This library makes Redis use the allocator of the C library. Systems without it do not need it.
const ALLOCATOR: &str = "libc_malloc_debug.so.0";

pub struct FakedClock(TempDir);

impl FakedClock {
    /// Shows the true time until it is set.
    pub fn new() -> Self {
        let clock = Self(tempfile::tempdir().expect("a directory"));
        clock.set(0);
        clock
    }

    /// From now on the clock differs from the true time by this number of hours.
    pub fn set(&self, hours: i32) {
        self.write(&format!("{hours:+}h"));
    }

    /// In processes that are started from now on, the clock runs faster by this number of
    /// thousandths.
    pub fn hurry(&self, thousandths: u32) {
        self.write(&format!("+0 x1.{thousandths:03}"));
    }

    fn write(&self, time: &str) {
        // Renamed atomically, because it may be read at any moment.
        let new = self.0.path().join("new");
        std::fs::write(&new, format!("{time}\n")).expect("a file");
        std::fs::rename(new, self.file()).expect("a file");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("time")
    }

    /// The environment variables of a process that uses this clock.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let library = LIBRARIES.iter().find(|library| Path::new(library).exists());
        let library = library.expect(
            "libfaketime is installed \
             (Debian, Ubuntu and Fedora: package `faketime` or `libfaketime`); \
             `scripts/install faketime` does it",
        );
        [
            ("LD_PRELOAD", library.to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            // The file is read whenever the time is requested.
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // The name of that variable in older releases.
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ]
        .into()
    }

    /// The [`environment`](Self::environment) of a Redis server.
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
