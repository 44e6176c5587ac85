//! Shows that the torture program finds bugs. Each test plants one bug in a copy of the source, and
//! the program must find it. In the unchanged source it must find nothing.
//!
//! The runs inject faults from fixed seeds. The copies share the target directory
//! with the other tests, so that cargo compiles only the changed packages again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parking_lot::Mutex;

/// Mostly faults.
const STORMS: [&str; 2] = ["--seconds", "15"];
const SEED: u64 = 20_240_229;

/// A bug must be found in one of this many runs, each with the next seed. Which faults meet which
/// calls depends on the speed of the machine, so one run alone can miss a bug on a busy machine.
const RUNS: u64 = 5;

/// Long times without faults, and only the lock without tokens.
const CALM: [&str; 6] = ["--seconds", "40", "--acquisitions", "1", "--locks", "1"];

/// At each unlock a thread waits for the lock. The lease is short: it can end while the threads
/// hand the lock over.
const CROWDED: [&str; 10] = [
    "--seconds",
    "20",
    "--acquisitions",
    "1",
    "--locks",
    "1",
    "--threads",
    "12",
    "--lease",
    "200",
];

/// Long leases, so that a lock that is kept for a lease is kept for too long. After the faults, a
/// rush ends, which leaves idle grants that the other processes wait for.
const LONG_LEASES: [&str; 10] = [
    "--seconds",
    "1",
    "--locks",
    "1",
    "--threads",
    "1",
    "--lease",
    "3000",
    "--slip",
    "300",
];

/// One run at a time: it occupies two cores.
static MACHINE: Mutex<()> = Mutex::new(());

/// Replaces a text that the file contains exactly once.
#[derive(Clone)]
struct Edit {
    file: &'static str,
    text: String,
    replacement: String,
}

impl Edit {
    fn new(file: &'static str, text: &str, replacement: &str) -> Self {
        Self {
            file,
            text: text.to_owned(),
            replacement: replacement.to_owned(),
        }
    }

    fn apply(&self, source: &str) -> String {
        assert_eq!(
            source.matches(&self.text).count(),
            1,
            "cannot plant the bug: {} must contain this text once:\n{}",
            self.file,
            self.text
        );
        source.replace(&self.text, &self.replacement)
    }
}

/// Any client can release the lock, not only its holder.
fn release_by_any_client() -> Vec<Edit> {
    vec![Edit::new(
        "lua/release.lua",
        "pcall('hdel', lock, names)",
        "pcall('del', lock)",
    )]
}

/// A lease that is renewed does not expire by the local clock.
fn lease_without_deadline() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/lease_state.rs",
        "    pub(super) fn expires(&self) -> Moment {\n        self.expires\n",
        "    pub(super) fn expires(&self) -> Moment {\n        \
                  if self.levels.are_fixed() { self.expires } else { Moment::NEVER }\n",
    )]
}

/// The local queue does not wake the next thread.
fn queue_without_wake_up() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/queue/waiter.rs",
        "        unparker.unpark();\n",
        "        drop(unparker.clone());\n",
    )]
}

/// A grant whose lease has ended is handed over, and the next thread believes in a new lease.
fn hand_over_of_lost_grants() -> Vec<Edit> {
    let usage = "src/local/grant/usage.rs";
    let mut edits = hand_over_past_the_slice();
    edits.extend([
        Edit::new(
            "src/local/queue/hand_over.rs",
            "            let _ = hold.check_at(now);\n",
            "            let _ = (hold, now);\n",
        ),
        Edit::new(
            usage,
            " && self.lease.suits(terms, now)\n",
            " && (terms, now) == (terms, now)\n",
        ),
        Edit::new(
            usage,
            "state.lease.restart(terms);",
            "state.lease = crate::local::lease_state::LeaseState::new(terms, Moment::now());",
        ),
    ]);
    edits
}

/// A process keeps a lock as long as its threads want it.
fn hand_over_past_the_slice() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/queue/hand_over.rs",
        "now >= grant.since().after(grant.slice(entry.yields.slice()))",
        "now >= grant.since().after(Duration::from_secs(3600))",
    )]
}

/// The watchdog never releases a grant that no thread uses.
fn idle_grant_that_stays() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/grant/renewal.rs",
        "Usage::Idle(until) if now < until.min(",
        "Usage::Idle(until) if now < until.after(Duration::from_secs(3600)).min(",
    )]
}

/// Two holds on one grant get the same token.
fn token_given_twice() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/grant/usage.rs",
        "self.tokens.next()",
        "self.tokens.clone().next()",
    )]
}

/// Fails as soon as a rename in the source needs the same rename here.
#[test]
fn every_bug_can_be_planted() {
    let bugs = [
        release_by_any_client(),
        lease_without_deadline(),
        queue_without_wake_up(),
        hand_over_of_lost_grants(),
        hand_over_past_the_slice(),
        idle_grant_that_stays(),
        token_given_twice(),
        own_package("name", "example").to_vec(),
    ];
    for edit in bugs.iter().flatten() {
        edit.apply(&read(&repository().join(edit.file)));
    }
}

#[test]
#[ignore = "soak"]
fn nothing_is_found_in_the_unchanged_source() {
    let root = repository();
    let _alone = MACHINE.lock();
    let run = torture(
        &build(root, "torture"),
        &STORMS,
        SEED,
        &target().join("planted/nothing"),
    );
    let output = text(&run);
    assert!(run.status.success(), "{output}");
    assert!(output.contains("no violation"), "{output}");
}

#[test]
#[ignore = "soak"]
fn a_release_by_any_client_is_found_as_two_holders() {
    assert_finds("release", release_by_any_client(), &STORMS, "two holders");
}

#[test]
#[ignore = "soak"]
fn a_lease_without_a_deadline_is_found_as_two_holders() {
    assert_finds("deadline", lease_without_deadline(), &STORMS, "two holders");
}

#[test]
#[ignore = "soak"]
fn a_missing_wake_up_is_found_as_a_stuck_thread() {
    assert_finds("wake", queue_without_wake_up(), &STORMS, "thread stuck");
}

#[test]
#[ignore = "soak"]
fn a_hand_over_of_a_lost_grant_is_found_as_two_holders() {
    assert_finds("lost", hand_over_of_lost_grants(), &CROWDED, "two holders");
}

#[test]
#[ignore = "soak"]
fn a_hand_over_past_the_slice_is_found() {
    assert_finds(
        "slice",
        hand_over_past_the_slice(),
        &CALM,
        "kept by hand-overs",
    );
}

#[test]
#[ignore = "soak"]
fn an_idle_grant_that_stays_is_found_as_a_stuck_lock() {
    assert_finds("idle", idle_grant_that_stays(), &LONG_LEASES, "lock stuck");
}

#[test]
#[ignore = "soak"]
fn a_token_given_twice_is_found() {
    assert_finds("token", token_given_twice(), &STORMS, "token fell");
}

fn assert_finds(name: &str, bug: Vec<Edit>, load: &[&str], kind: &str) {
    let _alone = MACHINE.lock();
    let copy = target().join("planted").join(name);
    // A name of its own, so that the build does not replace the program of the unchanged source.
    let example = format!("planted_{name}");
    // An earlier copy may have files that the source no longer has.
    let _ = fs::remove_dir_all(&copy);
    copy_sources(&copy, name, &example, bug);
    let program = build(&copy, &example);
    let mut runs = (SEED..SEED + RUNS).map(|seed| torture(&program, load, seed, &copy));
    let found = runs.find(|run| run.status.code() != Some(0));
    let run = found.expect("a run that finds the bug");
    let output = text(&run);
    assert_eq!(run.status.code(), Some(1), "{output}");
    assert!(output.contains(&format!(" x {kind}\n")), "{output}");
}

/// Runs the program, with its logs in `directory`.
fn torture(program: &Path, load: &[&str], seed: u64, directory: &Path) -> Output {
    let log = directory.join("log");
    let _ = fs::remove_dir_all(&log);
    let run = Command::new(program)
        .args(load)
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

fn build(source: &Path, example: &str) -> PathBuf {
    let (profile, directory) = if cfg!(debug_assertions) {
        ("dev", "debug")
    } else {
        ("release", "release")
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--locked"])
        .args([
            "--profile",
            profile,
            "--package",
            "leasehold-torture",
            "--example",
            example,
            "--manifest-path",
        ])
        .arg(source.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target())
        .output()
        .expect("cargo can be run");
    assert!(built.status.success(), "{}", text(&built));
    target().join(directory).join("examples").join(example)
}

fn copy_sources(copy: &Path, name: &str, example: &str, bug: Vec<Edit>) {
    let mut edits = own_package(name, example).to_vec();
    edits.extend(bug);
    for entry in fs::read_dir(repository()).expect("the repository") {
        let name = entry.expect("a file of the repository").file_name();
        if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
            copy_all(copy, Path::new(&name), &edits);
        }
    }
}

/// Gives the copy a version of its own. Otherwise cargo takes equally named packages of the same
/// version for one package, and uses what it built from another copy.
fn own_package(name: &str, example: &str) -> [Edit; 4] {
    let version = "name = \"leasehold\"\nversion = \"0.1.0\"\n";
    let own_version = format!("name = \"leasehold\"\nversion = \"0.1.0-{name}\"\n");
    [
        Edit::new("Cargo.toml", version, &own_version),
        Edit::new("Cargo.lock", version, &own_version),
        // The command accepts every version of the copy.
        Edit::new(
            "cli/Cargo.toml",
            "leasehold = { version = \"0.1.0\", path",
            "leasehold = { path",
        ),
        Edit::new(
            "examples/torture/Cargo.toml",
            "[[example]]\nname = \"torture\"\n",
            &format!("[[example]]\nname = \"{example}\"\n"),
        ),
    ]
}

fn copy_all(copy: &Path, source: &Path, edits: &[Edit]) {
    let from = repository().join(source);
    if from.is_dir() {
        for entry in fs::read_dir(from).expect("a directory of the source") {
            let name = entry.expect("a file of the source").file_name();
            copy_all(copy, &source.join(name), edits);
        }
        return;
    }
    let to = copy.join(source);
    fs::create_dir_all(to.parent().expect("in the copy")).expect("a directory");
    let mut edits = edits.iter().filter(|edit| Path::new(edit.file) == source);
    let written = match edits.next() {
        Some(first) => {
            let edited = first.apply(&read(&from));
            fs::write(&to, edits.fold(edited, |text, edit| edit.apply(&text)))
        }
        None => fs::copy(&from, &to).map(|_| ()),
    };
    written.unwrap_or_else(|error| panic!("{}: {error}", to.display()));
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
