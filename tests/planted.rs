//! Shows that the torture program finds bugs. Each test plants one bug in a copy of the source, and
//! the program must find it. In the unchanged source it must find nothing.
//!
//! Each run injects faults for `SECONDS` from the same seed. The copies share the target directory
//! with the other tests, so that cargo compiles only the changed packages again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parking_lot::Mutex;

const SECONDS: &str = "15";
const SEED: &str = "20240229";

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
fn release_by_any_client() -> Edit {
    Edit::new(
        "lua/release.lua",
        "redis.call('hexists', KEYS[1], name) == 1",
        "redis.call('exists', KEYS[1]) == 1",
    )
}

/// A lease that is renewed does not expire by the local clock.
fn lease_without_deadline() -> Edit {
    Edit::new(
        "src/local/lease_state.rs",
        "    pub(super) fn expires(&self) -> Moment {\n        self.expires\n",
        "    pub(super) fn expires(&self) -> Moment {\n        \
                  if self.levels.are_fixed() { self.expires } else { Moment::NEVER }\n",
    )
}

/// The local queue does not wake the next thread.
fn queue_without_wake_up() -> Edit {
    Edit::new(
        "src/local/queue.rs",
        "        unparker.unpark();\n",
        "        drop(unparker);\n",
    )
}

/// Fails as soon as a rename in the source needs the same rename here.
#[test]
fn every_bug_can_be_planted() {
    for bug in [
        release_by_any_client(),
        lease_without_deadline(),
        queue_without_wake_up(),
    ] {
        bug.apply(&read(&repository().join(bug.file)));
    }
    for edit in own_package("name", "example") {
        edit.apply(&read(&repository().join(edit.file)));
    }
}

#[test]
#[ignore = "soak"]
fn nothing_is_found_in_the_unchanged_source() {
    let root = repository();
    let _alone = MACHINE.lock();
    let run = torture(&build(root, "torture"), &target().join("planted/nothing"));
    let output = text(&run);
    assert!(run.status.success(), "{output}");
    assert!(output.contains("no violation"), "{output}");
}

#[test]
#[ignore = "soak"]
fn a_release_by_any_client_is_found_as_two_holders() {
    assert_finds("release", release_by_any_client(), "two holders");
}

#[test]
#[ignore = "soak"]
fn a_lease_without_a_deadline_is_found_as_two_holders() {
    assert_finds("deadline", lease_without_deadline(), "two holders");
}

#[test]
#[ignore = "soak"]
fn a_missing_wake_up_is_found_as_a_stuck_thread() {
    assert_finds("wake", queue_without_wake_up(), "thread stuck");
}

fn assert_finds(name: &str, bug: Edit, kind: &str) {
    let _alone = MACHINE.lock();
    let copy = target().join("planted").join(name);
    // A name of its own, so that the build does not replace the program of the unchanged source.
    let example = format!("planted_{name}");
    // An earlier copy may have files that the source no longer has.
    let _ = fs::remove_dir_all(&copy);
    copy_sources(&copy, name, &example, bug);
    let run = torture(&build(&copy, &example), &copy);
    let output = text(&run);
    assert_eq!(run.status.code(), Some(1), "{output}");
    assert!(output.contains(&format!(" x {kind}\n")), "{output}");
}

/// Runs the program, with its logs in `directory`.
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

fn copy_sources(copy: &Path, name: &str, example: &str, bug: Edit) {
    let mut edits = own_package(name, example).to_vec();
    edits.push(bug);
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
    let written = match edits.iter().find(|edit| Path::new(edit.file) == source) {
        Some(edit) => fs::write(&to, edit.apply(&read(&from))),
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
