//! Three bugs are planted, each in a copy of the source. The torture program must find each of
//! them, and must find nothing in the unchanged source.
//!
//! Each run takes `SECONDS` of faults from the same seed. The copies use the build artifacts of the
//! tests, so that only the crate itself is compiled again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parking_lot::Mutex;

const SECONDS: &str = "15";
const SEED: &str = "20240229";

/// One at a time, because one uses two cores.
static MACHINE: Mutex<()> = Mutex::new(());

/// The files that the build of the program needs.
const SOURCES: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "cli",
    "macros",
    "src",
    "lua",
    "benches",
    "examples",
    "tests",
];

/// A text of the source, which must occur once, and its replacement.
struct Edit {
    file: &'static str,
    text: String,
    instead: String,
}

#[test]
#[ignore = "soak"]
fn nothing_is_found_in_the_unchanged_source() {
    let root = repository();
    let _alone = MACHINE.lock();
    let run = torture(&build(root, "torture"), &target().join("planted/nothing"));
    let said = said(&run);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("no violation"), "{said}");
}

#[test]
#[ignore = "soak"]
fn a_release_without_an_owner_check_is_found_as_two_holders() {
    let bug = edit(
        "lua/release.lua",
        "redis.call('hexists', KEYS[1], name) == 1",
        "redis.call('exists', KEYS[1]) == 1",
    );
    assert_finds("release", bug, "two holders");
}

#[test]
#[ignore = "soak"]
fn a_lease_that_lasts_until_redis_answers_is_found_as_two_holders() {
    let bug = edit(
        "src/local/lease_state.rs",
        "    pub(super) fn expires(&self) -> Moment {\n        self.expires\n",
        "    pub(super) fn expires(&self) -> Moment {\n        \
                  if self.levels.are_fixed() { self.expires } else { Moment::NEVER }\n",
    );
    assert_finds("deadline", bug, "two holders");
}

#[test]
#[ignore = "soak"]
fn a_ticket_that_is_passed_on_without_a_wake_up_is_found_as_a_stuck_thread() {
    let bug = edit(
        "src/local/queue.rs",
        "        waker.wake();\n",
        "        drop(waker);\n",
    );
    assert_finds("wake", bug, "thread stuck");
}

fn edit(file: &'static str, text: &str, instead: &str) -> Edit {
    Edit {
        file,
        text: text.to_owned(),
        instead: instead.to_owned(),
    }
}

fn assert_finds(name: &str, bug: Edit, kind: &str) {
    let _alone = MACHINE.lock();
    let copy = target().join("planted").join(name);
    // Not the name that the example has, so that the program of the unchanged source is kept.
    let example = format!("planted_{name}");
    // The source may no longer contain what an earlier copy contains.
    let _ = fs::remove_dir_all(&copy);
    copy_sources(&copy, name, &example, bug);
    let run = torture(&build(&copy, &example), &copy);
    let said = said(&run);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!(" x {kind}\n")), "{said}");
}

/// Runs the program, with its log in `directory`.
fn torture(program: &Path, directory: &Path) -> Output {
    let log = directory.join("log");
    let _ = fs::remove_dir_all(&log);
    let run = Command::new(program)
        .args(["--seconds", SECONDS, "--seed", SEED, "--log"])
        .arg(&log)
        .output();
    run.expect("it was built")
}

fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2);
    root.expect("the package is examples/torture")
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
    assert!(built.status.success(), "{}", said(&built));
    target().join(directory).join("examples").join(example)
}

fn copy_sources(copy: &Path, name: &str, example: &str, bug: Edit) {
    // Cargo takes packages of one name and version, each below the root of a workspace, for the
    // same package, and reuses the build of another copy. So each copy has its own version.
    let before = "name = \"leasehold\"\nversion = \"0.1.0\"\n";
    let own = format!("name = \"leasehold\"\nversion = \"0.1.0-{name}\"\n");
    let program = format!("[[example]]\nname = \"{example}\"\n");
    let edits = [
        edit("Cargo.toml", before, &own),
        edit("Cargo.lock", before, &own),
        edit(
            "examples/torture/Cargo.toml",
            "[[example]]\nname = \"torture\"\n",
            &program,
        ),
        bug,
    ];
    for source in SOURCES {
        copy_all(repository(), copy, Path::new(source), &edits);
    }
}

fn copy_all(root: &Path, copy: &Path, source: &Path, edits: &[Edit]) {
    let from = root.join(source);
    if from.is_dir() {
        for entry in fs::read_dir(from).expect("a directory of the source") {
            let name = entry.expect("a file of the source").file_name();
            copy_all(root, copy, &source.join(name), edits);
        }
        return;
    }
    let mut text =
        fs::read_to_string(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    for edit in edits.iter().filter(|edit| Path::new(edit.file) == source) {
        assert_eq!(
            text.matches(&edit.text).count(),
            1,
            "nothing can be planted: {} must have this text once:\n{}",
            edit.file,
            edit.text
        );
        text = text.replace(&edit.text, &edit.instead);
    }
    write(&copy.join(source), text.as_bytes());
}

fn write(to: &Path, text: &[u8]) {
    fs::create_dir_all(to.parent().expect("in the copy")).expect("a directory");
    fs::write(to, text).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}
