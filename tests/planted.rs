//! Shows that the torture program finds bugs. Each test plants one bug in a copy of the source, and
//! the program must find it. In the unchanged source it must find nothing.
//!
//! The runs inject faults from fixed seeds. The copy shares the target directory with the other
//! tests, so that cargo compiles only the changed package again.

#[path = "planted/bugs.rs"]
mod bugs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use bugs::Edit;
use parking_lot::Mutex;

/// Mostly faults.
const STORMS: &str = "--seconds 15";
const SEED: u64 = 20_240_229;

/// A bug must be found in one of this many runs, each with the next seed. Which faults meet which
/// calls depends on the speed of the machine, so one run alone can miss a bug on a busy machine.
const RUNS: u64 = 5;

/// Long times without faults, and only the lock without tokens.
const CALM: &str = "--seconds 40 --acquisitions 1 --locks 1";

/// At each unlock a thread waits for the lock. The lease is short: it can end while the threads
/// hand the lock over.
const CROWDED: &str = "--seconds 20 --acquisitions 1 --locks 1 --threads 12 --lease 200";

/// Long leases, so that a lock that is kept for a lease is kept for too long. After the faults, a
/// rush ends, which leaves idle grants that the other processes wait for.
const LONG_LEASES: &str = "--seconds 1 --locks 1 --threads 1 --lease 3000 --slip 300";

/// Other kinds of locks.
const FAIR: &str = "--kind fair --seconds 3";
const READ_WRITE: &str = "--kind read-write --seconds 5";
const PERMITS: &str = "--kind permits=3 --seconds 5";

/// The copy. One bug at a time is in it, and one run at a time occupies two cores.
static COPY: LazyLock<Mutex<PathBuf>> = LazyLock::new(|| {
    let copy = target().join("planted");
    // An earlier copy may have files that the source no longer has.
    let _ = fs::remove_dir_all(&copy);
    copy_all(&copy, Path::new(""));
    plant(&copy, &own_package());
    Mutex::new(copy)
});

/// A test for each bug: the load with which the program runs, and what it must find. Some bugs show
/// in more than one way, and a run ends with the first violation.
macro_rules! planted {
    ($($bug:ident, $load:expr, $($kind:literal)|+;)+) => {
        $(
            #[test]
            #[ignore = "soak"]
            fn $bug() {
                assert_finds(&bugs::$bug(), $load, &[$($kind),+]);
            }
        )+

        /// Fails as soon as a rename in the source needs the same rename here.
        #[test]
        fn every_bug_can_be_planted() {
            let bugs = [$(bugs::$bug(),)+ own_package().to_vec()];
            for edit in bugs.iter().flatten() {
                edit.apply(&read(&repository().join(edit.file)));
            }
        }
    };
}

planted! {
    release_by_any_client, STORMS, "two holders";
    // The holder works on after its lease: beside the next holder, or after its key was deleted.
    lease_without_deadline, STORMS, "two holders" | "holder not notified";
    queue_without_wake_up, STORMS, "thread stuck";
    hand_over_of_lost_grants, CROWDED, "two holders";
    hand_over_past_the_slice, CALM, "kept by hand-overs";
    idle_grant_that_stays, LONG_LEASES, "lock stuck";
    token_given_twice, STORMS, "token fell";
    fair_lock_without_order, FAIR, "overtaken";
    read_lock_beside_a_writer, READ_WRITE, "reader beside a writer";
    write_lock_beside_readers, READ_WRITE, "reader beside a writer";
    permit_that_is_not_counted, PERMITS, "too many permits";
}

#[test]
#[ignore = "soak"]
fn nothing_is_found_in_the_unchanged_source() {
    let copy = COPY.lock();
    let run = torture(&build(&copy, &[]), STORMS, SEED, &copy);
    let output = text(&run);
    assert!(run.status.success(), "{output}");
    assert!(output.contains("no violation"), "{output}");
}

fn assert_finds(bug: &[Edit], load: &str, kinds: &[&str]) {
    let copy = COPY.lock();
    let program = build(&copy, bug);
    let mut runs = (SEED..SEED + RUNS).map(|seed| torture(&program, load, seed, &copy));
    let found = runs.find(|run| run.status.code() != Some(0));
    let run = found.expect("a run that finds the bug");
    let output = text(&run);
    assert_eq!(run.status.code(), Some(1), "{output}");
    let is_found = |kind: &&str| output.contains(&format!(" x {kind}\n"));
    assert!(kinds.iter().any(is_found), "{output}");
}

/// Runs the program, with its logs in `directory`.
fn torture(program: &Path, load: &str, seed: u64, directory: &Path) -> Output {
    let log = directory.join("log");
    let _ = fs::remove_dir_all(&log);
    let run = Command::new(program)
        .args(load.split_whitespace())
        .args(["--seed", &seed.to_string(), "--log"])
        .arg(&log)
        .output();
    run.expect("it was built")
}

fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package is in the repository")
}

fn target() -> &'static Path {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("it is in the target directory")
}

/// Builds the program from the copy with a bug, and removes the bug from the copy.
fn build(copy: &Path, bug: &[Edit]) -> PathBuf {
    plant(copy, bug);
    let (profile, directory) = if cfg!(debug_assertions) {
        ("dev", "debug")
    } else {
        ("release", "release")
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args("build --quiet --offline --locked --package leasehold-torture".split(' '))
        .args([
            "--example",
            EXAMPLE,
            "--profile",
            profile,
            "--manifest-path",
        ])
        .arg(copy.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target())
        // Each bug changes a few files.
        .env("CARGO_INCREMENTAL", "1")
        .output()
        .expect("cargo can be run");
    for edit in bug {
        write(&copy.join(edit.file), &read(&repository().join(edit.file)));
    }
    assert!(built.status.success(), "{}", text(&built));
    target().join(directory).join("examples").join(EXAMPLE)
}

fn plant(copy: &Path, edits: &[Edit]) {
    for edit in edits {
        let file = copy.join(edit.file);
        write(&file, &edit.apply(&read(&file)));
    }
}

/// The program has a name of its own, so that it does not replace that of the unchanged source.
const EXAMPLE: &str = "planted";

/// Gives the copy a version of its own. Otherwise cargo takes equally named packages of the same
/// version for one package.
fn own_package() -> [Edit; 4] {
    let version = "name = \"leasehold\"\nversion = \"0.2.0\"\n";
    let own_version = "name = \"leasehold\"\nversion = \"0.2.0-planted\"\n";
    [
        Edit::new("Cargo.toml", version, own_version),
        Edit::new("Cargo.lock", version, own_version),
        // The command accepts every version of the copy.
        Edit::new(
            "cli/Cargo.toml",
            "leasehold = { version = \"=0.2.0\", path",
            "leasehold = { path",
        ),
        Edit::new(
            "examples/torture/Cargo.toml",
            "[[example]]\nname = \"torture\"\n",
            &format!("[[example]]\nname = \"{EXAMPLE}\"\n"),
        ),
    ]
}

/// Copies a file or a folder of the repository, without what it ignores.
fn copy_all(copy: &Path, source: &Path) {
    let from = repository().join(source);
    if !from.is_dir() {
        fs::copy(&from, copy.join(source)).expect("a file of the source");
        return;
    }
    fs::create_dir_all(copy.join(source)).expect("a folder of the copy");
    for entry in fs::read_dir(from).expect("a folder of the source") {
        let name = entry.expect("a file of the source").file_name();
        if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
            copy_all(copy, &source.join(name));
        }
    }
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}
