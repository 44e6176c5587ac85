//! Shows that the simulation finds bugs. Each test plants one bug in a copy of the source, or
//! leaves one rule out, and the simulation must find it within a minute. In the unchanged source it
//! must find nothing. Bugs that the simulation does not look for must be found by a test of `it`.
//!
//! Each bug has a seed that leads to it soon. If a change of the library leads elsewhere, another
//! seed may be needed: a scenario takes seconds, and most bugs show in many. All copies have one
//! target directory, so that cargo compiles only what the bug changes. It is not that of the other
//! tests: there, cargo would take the packages of the copy for those of the source.
//!
//! Some rules are not here, because their loss shows in few runs of the simulation or in none. They
//! have tests of their own:
//!
//! | rule | test |
//! |---|---|
//! | dead places of a fair queue end together, and those of Redisson stay | `it::fair` |
//! | the first client that lives listens to releases of Redisson | `it::line::redisson` |
//! | conditions: the order of steps, late copies, notifications that go on | `it::condition` |
//! | a wait for several links sees replies that other threads took | `transport::link::tests` |
//! | a call for several names does not keep the first for long | `it::multi` |
//!
//! No edit can make the drop of an owned guard in a forked child release the lock of its parent:
//! the drop sends nothing, and the child has no watchdog thread. The edit for a fork is one of
//! other guards.

#[path = "planted/bugs.rs"]
mod bugs;
#[path = "planted/condition_rules.rs"]
mod condition_rules;
#[path = "planted/owned.rs"]
mod owned;
#[path = "planted/redisson_rules.rs"]
mod redisson_rules;
#[path = "planted/rows.rs"]
mod rows;
#[path = "planted/rules.rs"]
mod rules;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use bugs::Edit;
use parking_lot::Mutex;

/// For how long the simulation runs, in seconds.
const SECONDS: &str = "60";

/// The profile of this program, and its folder in the target directory.
const PROFILE: (&str, &str) = match cfg!(debug_assertions) {
    true => ("dev", "debug"),
    false => ("release", "release"),
};

/// The copy. One bug at a time is in it, and one run at a time occupies a core.
static COPY: LazyLock<Mutex<PathBuf>> = LazyLock::new(|| {
    let copy = folder().join("source");
    // An earlier copy may have files that the source no longer has.
    let _ = fs::remove_dir_all(&copy);
    copy_all(&copy, Path::new(""));
    Mutex::new(copy)
});

/// A test for each bug: its edits, the seed and the limits of the run, and what it must find. Some
/// bugs show in more than one way.
macro_rules! planted {
    ($($bug:ident = $edits:path, $run:literal, $($kind:literal)|+;)+) => {
        $(
            #[test]
            #[ignore = "soak"]
            fn $bug() {
                assert_finds($edits, $run, &[$($kind),+]);
            }
        )+

        pub(super) const EDITS: &[&[Edit]] = &[$($edits),+];
    };
}

mod bug {
    use super::{Edit, assert_finds, bugs};

    planted! {
        release_by_any_client = bugs::RELEASE_BY_ANY_CLIENT, "1", "two holders";
        lease_without_deadline =
            bugs::LEASE_WITHOUT_DEADLINE, "1", "two holders" | "holder not notified";
        grant_taken_back = bugs::GRANT_TAKEN_BACK, "1", "two holders" | "wrong result";
        queue_without_wake_up = bugs::QUEUE_WITHOUT_WAKE_UP, "1", "lock stuck" | "thread stuck";
        hand_over_of_lost_grants = bugs::HAND_OVER_OF_LOST_GRANTS, "1", "two holders" | "overtaken";
        hand_over_past_the_slice =
            bugs::HAND_OVER_PAST_THE_SLICE, "1", "kept by hand-overs" | "overtaken";
        idle_grant_that_stays = bugs::IDLE_GRANT_THAT_STAYS, "1 --kind reentrant --deployment one", "lock stuck";
        token_given_twice = bugs::TOKEN_GIVEN_TWICE, "1", "token fell";
        token_of_the_clock =
            bugs::TOKEN_OF_THE_CLOCK, "1 --kind fenced --deployment one", "token fell";
        fair_lock_without_order = bugs::FAIR_LOCK_WITHOUT_ORDER, "1", "overtaken";
        read_lock_beside_a_writer = bugs::READ_LOCK_BESIDE_A_WRITER, "1", "reader beside a writer";
        write_lock_beside_readers = bugs::WRITE_LOCK_BESIDE_READERS, "1", "reader beside a writer";
        permit_that_is_not_counted =
            bugs::PERMIT_THAT_IS_NOT_COUNTED, "1 --kind permits=2 --deployment one", "left over" | "too many permits";
        query_of_any_owner =
            bugs::QUERY_OF_ANY_OWNER, "1 --program torture", "late query" | "two holders";
        query_without_number =
            bugs::QUERY_WITHOUT_NUMBER, "1 --program torture --deployment one --threads 1", "late query";
        drop_without_release = bugs::DROP_WITHOUT_RELEASE, "1", "lock stuck" | "left over";
    }
}

/// Mends that are taken out.
mod row {
    use super::{Edit, assert_finds, rows, rules};

    planted! {
        dead_client_with_a_need =
            rows::DEAD_CLIENT_WITH_A_NEED, "1 --program few --kind semaphore=4", "lock stuck";
        silent_heads = rows::SILENT_HEADS, "2 --program torture --deployment one --kind reentrant", "lock stuck";
        silent_heads_of_readers =
            rows::SILENT_HEADS, "1 --program few --kind read-write", "lock stuck";
        deaf_clients = rows::DEAF_CLIENTS, "1 --program few --kind reentrant", "place lost";
        lost_line =
            rules::LOSS_NOT_SEEN, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "thread stuck";
        order_after_a_lease =
            rows::ORDER_AFTER_A_LEASE, "2 --program few --kind reentrant", "overtaken";
        late_latches = rows::LATE_LATCHES, "1 --program latches", "lock stuck";
        need_of_too_many = rules::NEVER_PASSED, "1 --program few --kind semaphore=4", "lock stuck";
    }
}

/// These tests take long, so a workflow runs them at night.
mod left_out {
    use super::{Edit, assert_finds, condition_rules, redisson_rules, rows, rules};

    planted! {
        not_marked = rules::NOT_MARKED, "2 --program torture --deployment one --kind reentrant", "overtaken";
        barges = rules::BARGES, "2 --program torture --deployment one --kind reentrant", "overtaken";
        dead_kept = rules::DEAD_KEPT, "2 --program torture --deployment one --kind reentrant", "lock stuck";
        mark_kept = rules::MARK_KEPT, "1 --program torture --deployment one --kind reentrant --locks 1", "place lost" | "lock stuck" | "overtaken";
        dropped_at_call =
            rules::DROPPED_AT_CALL, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "place lost" | "overtaken";
        reserved_without_end =
            rules::RESERVED_WITHOUT_END, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "thread stuck";
        calls_one_by_one = rules::CALLS_ONE_BY_ONE, "1 --program few --kind reentrant", "lock stuck";
        not_followed = rules::NOT_FOLLOWED, "1 --program few --kind reentrant", "lock stuck";
        not_looked = rules::NOT_LOOKED, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "thread stuck";
        loss_not_seen = rules::LOSS_NOT_SEEN, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "thread stuck";
        passes_first = rules::PASSES_FIRST, "2 --program few --kind reentrant", "lock stuck" | "overtaken";
        not_asked_after_confirmation =
            rules::NOT_ASKED_AFTER_CONFIRMATION, "1 --program few --kind reentrant", "lock stuck" | "overtaken";
        message_forgotten = rules::MESSAGE_FORGOTTEN, "3 --program few --kind reentrant --processes 4 --threads 1", "lock stuck" | "place lost";
        heir_silent = rules::HEIR_SILENT, "2 --program torture --deployment one --kind reentrant", "lock stuck" | "thread stuck";
        call_ignored = rules::CALL_IGNORED, "1 --program few --kind reentrant --processes 4 --threads 1", "lock stuck" | "place lost";
        // It shows in few runs.
        ghosts = rows::GHOSTS, "1 --program few --kind read-write --processes 4 --threads 1", "lock stuck";
        leaves_silently = rules::LEAVES_SILENTLY, "2 --program few --kind reentrant", "lock stuck";
        heir_forgotten = rules::HEIR_FORGOTTEN, "1 --program few --kind reentrant", "place lost";

        passes_writer = rules::PASSES_WRITER, "2 --program torture --deployment one --kind read-write", "overtaken";
        chain_broken = rules::CHAIN_BROKEN, "2 --program torture --deployment one --kind read-write", "overtaken" | "lock stuck";
        leaves_readers_silently =
            rules::LEAVES_READERS_SILENTLY, "1 --program few --kind read-write", "lock stuck" | "overtaken";
        downgrades_silently =
            rules::DOWNGRADES_SILENTLY, "2 --program torture --deployment one --kind read-write", "lock stuck" | "overtaken";
        role_kept = rules::ROLE_KEPT, "1 --program few --kind read-write", "overtaken" | "lock stuck";
        passes_called_reader =
            redisson_rules::PASSES_CALLED_READER, "6 --program few --kind read-write --processes 5", "overtaken";
        writer_not_probed =
            redisson_rules::WRITER_NOT_PROBED, "3 --program few --kind read-write", "lock stuck" | "wrong result";

        not_reserved = rules::NOT_RESERVED, "2 --program few --kind semaphore=4", "overtaken";
        passes_many = rules::PASSES_MANY, "1 --program few --kind semaphore=4", "overtaken";
        permits_not_probed = rules::PERMITS_NOT_PROBED, "2 --program few --kind semaphore=2", "lock stuck";
        permits_call_one_by_one = rules::PERMITS_CALL_ONE_BY_ONE, "2 --program few --kind permits=2", "lock stuck";
        permits_barge = rules::PERMITS_BARGE, "2 --program torture --deployment one --kind semaphore=4", "overtaken";
        late_permits_kept =
            rules::LATE_PERMITS_KEPT, "2 --program torture --deployment one --kind semaphore=4", "lock stuck" | "thread stuck";
        never_passed = rules::NEVER_PASSED, "1 --program few --kind semaphore=4", "lock stuck";

        unmarked_places_removed =
            rules::UNMARKED_PLACES_REMOVED, "1 --program torture --deployment one --kind fair --locks 1", "starved";

        rank_stale =
            redisson_rules::RANK_STALE, "1 --program redisson --kind reentrant", "lock stuck";
        leaves_redisson_silently =
            redisson_rules::LEAVES_REDISSON_SILENTLY, "1 --program redisson --kind reentrant", "lock stuck";
        leaves_redisson_readers =
            redisson_rules::LEAVES_REDISSON_READERS, "1 --program redisson --kind read-write", "lock stuck";
        called_kept =
            redisson_rules::CALLED_KEPT, "1 --program redisson --kind semaphore=2", "lock stuck";
        duty_kept = redisson_rules::DUTY_KEPT, "1 --program redisson --kind semaphore=2", "lock stuck";
        ends_from_now = redisson_rules::ENDS_FROM_NOW, "1 --program redisson --kind fair", "place lost";
        ends_behind = redisson_rules::ENDS_BEHIND, "1 --program redisson --kind fair", "place lost";
        ends_once = redisson_rules::ENDS_ONCE, "1 --program redisson --kind fair", "place lost";

        time_believed = condition_rules::TIME_BELIEVED, "1 --program conditions", "wrong result";
        gone_believed = condition_rules::GONE_BELIEVED, "1 --program conditions", "wrong result";
        ended_early = condition_rules::ENDED_EARLY, "1 --program conditions", "wrong result";
    }
}

/// A test for each bug: its edits, and the test of `it` that must find it.
macro_rules! tested {
    ($($bug:ident = $edits:path, $test:literal;)+) => {
        $(
            #[test]
            #[ignore = "soak"]
            fn $bug() {
                assert_fails($edits, $test);
            }
        )+

        pub(super) const EDITS: &[&[Edit]] = &[$($edits),+];
    };
}

/// Bugs of owned guards and of their tokens.
mod guard {
    use super::{Edit, assert_fails, bugs, owned};

    tested! {
        token_adopted_twice = owned::TOKEN_ADOPTED_TWICE,
            "contract::matrix::reentrant_in_one_server::owned::\
             a_token_gives_an_owned_hold_to_another_client";
        permit_adopted_twice = owned::PERMIT_ADOPTED_TWICE, "tokens::a_permit_is_given_away";
        release_by_a_forked_child = owned::RELEASE_BY_A_FORKED_CHILD,
            "faults::fork::a_forked_child_neither_has_nor_affects_its_parents_locks";
        kept_at_shutdown = owned::KEPT_AT_SHUTDOWN,
            "faults::owned::a_guard_that_is_used_after_a_shutdown_was_lost_by_it";
        ends_with_its_first_thread = owned::ENDS_WITH_ITS_FIRST_THREAD,
            "contract::matrix::reentrant_in_one_server::owned::every_thread_can_use_an_owned_guard";
        kept_by_a_thread_that_ends = bugs::DROP_WITHOUT_RELEASE,
            "faults::owned::a_guard_that_is_sent_to_a_thread_that_ends_is_released";
    }
}

/// Fails as soon as a rename in the source needs the same rename here.
#[test]
fn every_bug_can_be_planted() {
    let found = [bug::EDITS, row::EDITS, left_out::EDITS, guard::EDITS];
    let found = found.into_iter().flatten();
    for edit in found.copied().flatten() {
        edit.apply(&read(&repository().join(edit.file)));
    }
}

#[test]
#[ignore = "soak"]
fn nothing_is_found_in_the_unchanged_source() {
    let copy = COPY.lock();
    let run = simulate(&build(&copy, &[]), "8101");
    let output = text(&run);
    assert!(run.status.success(), "{output}");
    assert!(output.contains(" 0 violations"), "{output}");
}

fn assert_finds(bug: &[Edit], run: &str, kinds: &[&str]) {
    let copy = COPY.lock();
    let program = build(&copy, bug);
    let run = simulate(&program, run);
    let output = text(&run);
    println!("{output}");
    assert_eq!(run.status.code(), Some(1), "{output}");
    let is_found = |kind: &&str| output.contains(&format!(" x {kind}\n"));
    assert!(kinds.iter().any(is_found), "{output}");
}

/// The test must run with the bug, and fail.
fn assert_fails(bug: &[Edit], test: &str) {
    let arguments = format!("test --package leasehold-tests --test it -- --exact {test}");
    let output = text(&cargo(&COPY.lock(), bug, &arguments));
    println!("{output}");
    assert!(output.contains("0 passed; 1 failed"), "{output}");
}

/// Runs the simulation with this seed and these limits, until the first violation.
fn simulate(program: &Path, run: &str) -> Output {
    let run = Command::new(program)
        .args([SECONDS, "--first"])
        .args(run.split_whitespace())
        .output();
    run.expect("it was built")
}

fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package is in the repository")
}

/// Has the copy, and what is built from it.
fn folder() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = temporary.parent().expect("it is in the target directory");
    target.join("planted")
}

/// Builds the program from the copy with a bug.
fn build(copy: &Path, bug: &[Edit]) -> PathBuf {
    let arguments = "build --package leasehold-simulation --example simulate";
    let built = cargo(copy, bug, arguments);
    assert!(built.status.success(), "{}", text(&built));
    let (_, directory) = PROFILE;
    let programs = folder().join("target").join(directory).join("examples");
    programs.join("simulate")
}

/// Calls cargo for the copy with a bug, and removes the bug from the copy.
fn cargo(copy: &Path, bug: &[Edit], arguments: &str) -> Output {
    plant(copy, bug);
    let (profile, _) = PROFILE;
    let mut arguments = arguments.split_whitespace();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let called = Command::new(cargo)
        .args(arguments.next())
        .args("--quiet --offline --locked --manifest-path".split(' '))
        .arg(copy.join("Cargo.toml"))
        .args(["--profile", profile, "--target-dir"])
        .arg(folder().join("target"))
        .args(arguments)
        // Each bug changes a few files.
        .env("CARGO_INCREMENTAL", "1")
        .output()
        .expect("cargo can be run");
    for edit in bug {
        write(&copy.join(edit.file), &read(&repository().join(edit.file)));
    }
    called
}

fn plant(copy: &Path, edits: &[Edit]) {
    for edit in edits {
        let file = copy.join(edit.file);
        write(&file, &edit.apply(&read(&file)));
    }
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
