//! Rules for the sources as a whole.

mod circles;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::proxy::repository;

const LONGEST_FILE: usize = 400;

fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files of a directory with this ending, from the root of the package.
fn files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![repository().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path.strip_prefix(repository()).unwrap().to_owned());
            }
        }
    }
    assert!(!found.is_empty());
    found.sort();
    found
}

/// `lock` for `src/lock/guard.rs`, `key` for `src/key.rs`.
fn module(file: &Path) -> String {
    let below = file.components().nth(1).unwrap();
    Path::new(&below)
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

/// Lines of code with their numbers, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(at, line)| {
        let code = line.split_once("//").map_or(line, |(code, _)| code);
        (!code.trim().is_empty()).then_some((at + 1, code))
    })
}

/// The part of a file that is not for its tests.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests")
        .or_else(|| text.split_once("#[cfg(test)]\npub"))
        .map_or(text, |(code, _)| code)
}

/// The rank of every module: its row in ARCHITECTURE.md, and its place in that row.
fn ranks() -> BTreeMap<String, (usize, usize)> {
    let text = read("ARCHITECTURE.md");
    let mut ranks = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(layer) = cells.get(1).and_then(|cell| cell.parse().ok()) else {
            continue;
        };
        let modules = cells[2].split('`').filter(|part| !part.trim().is_empty());
        for (place, module) in modules.enumerate() {
            ranks.insert(module.trim_end_matches('/').to_owned(), (layer, place));
        }
    }
    assert!(ranks.len() >= 15, "{ranks:?}");
    ranks
}

/// A module imports only what stands before it in the table of ARCHITECTURE.md.
#[test]
fn modules_import_only_what_is_below_them() {
    let ranks = ranks();
    let mut wrong = Vec::new();
    for file in files("src", "rs") {
        let module = module(&file);
        if module == "lib" {
            continue;
        }
        let Some(rank) = ranks.get(&module) else {
            wrong.push(format!("{} is in no layer", file.display()));
            continue;
        };
        for (line, code) in code(&read(&file)).map(|(line, code)| (line, code.to_owned())) {
            for used in code.split("crate::").skip(1) {
                let used: String = used
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                let below = ranks.get(&used).is_some_and(|below| below < rank);
                if used != module && !below {
                    wrong.push(format!("{}:{line}: {module} uses {used}", file.display()));
                }
            }
            if code.contains("super::super") {
                wrong.push(format!("{}:{line}: super::super", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Nothing prints, panics, sleeps where it cannot be woken, or reads a clock that jumps or stops.
#[test]
fn the_library_neither_prints_nor_panics() {
    const BANNED: &[&str] = &[
        "println!",
        "eprintln!",
        "print!(",
        "dbg!",
        "SystemTime",
        "thread::sleep",
        ".unwrap()",
        ".expect(",
        "panic!(",
        "unreachable!(",
        "todo!(",
        "unimplemented!(",
        "process::exit",
    ];
    let mut wrong = Vec::new();
    for file in files("src", "rs").into_iter().filter(|file| !is_test(file)) {
        let text = read(&file);
        for (line, code) in code(without_tests(&text)) {
            let banned = BANNED.iter().copied().find(|ban| code.contains(ban));
            let clock = code.contains("Instant::") && !file.ends_with("clock.rs");
            if let Some(banned) = banned.or(clock.then_some("Instant::")) {
                wrong.push(format!("{}:{line}: {banned}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A simulation sets the time of this server, and repeats its runs exactly.
#[test]
fn the_in_memory_server_has_no_clock_no_sockets_and_no_random_order() {
    const BANNED: &[&str] = &["std::net", "std::time", "std::thread", "HashMap", "HashSet"];
    for file in files("testing/src/in_memory/server", "rs") {
        let text = read(&file);
        let banned = BANNED.iter().find(|ban| text.contains(**ban));
        assert_eq!(banned, None, "{}", file.display());
    }
}

/// True for `tests.rs` and for the files of a folder `tests`.
fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.iter().any(|part| part == "tests")
}

/// A log and a recorder of metrics may block. Only `observe/` decides on which threads they are
/// called, and it marks the client's own threads.
#[test]
fn only_observe_starts_threads_and_calls_code_of_the_application() {
    const ONLY_IN_OBSERVE: &[&str] = &["thread::Builder", "thread::spawn", "metrics::"];
    let mut wrong = Vec::new();
    for file in files("src", "rs") {
        if file.starts_with("src/observe") || is_test(&file) {
            continue;
        }
        let text = read(&file);
        let mut before = "";
        for (line, code) in code(without_tests(&text)) {
            let is_queued = before.contains("tell(") || code.contains("tell(");
            let logs = code.contains("tracing::") && !is_queued;
            if logs || ONLY_IN_OBSERVE.iter().any(|ban| code.contains(ban)) {
                wrong.push(format!("{}:{line}: {code}", file.display()));
            }
            before = code;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_is_too_long() {
    let sources = ["src", "cli/src", "testing/src"].map(|folder| files(folder, "rs"));
    for file in sources.into_iter().flatten() {
        let lines = read(&file).lines().count();
        assert!(
            lines <= LONGEST_FILE,
            "{} has {lines} lines",
            file.display()
        );
    }
}

/// Rustfmt does not wrap comments. A row of a table is one line.
#[test]
fn no_line_is_too_long() {
    for file in [files("src", "rs"), files("lua", "lua")].concat() {
        let text = read(&file);
        let is_long = |line: &&str| line.chars().count() > 100 && !line.contains("| ");
        assert_eq!(text.lines().find(is_long), None, "{}", file.display());
    }
}

/// Every script and every shared file is used. The header of a script states its purpose, arguments
/// and reply. Of a list of keys or arguments it names `KEYS[i]`, or `KEYS[2i`.
#[test]
fn every_script_is_used_and_documented() {
    let scripts = files("lua", "lua");
    let used = scripts.iter().map(read).collect::<String>() + &read("src/script/mod.rs");
    // Its functions use the first arguments of the scripts that require it.
    let once = read("lua/shared/once.lua");
    for file in scripts {
        let name = file.to_str().unwrap().split_once("lua/").unwrap().1;
        let word = name.rsplit('/').next().unwrap().trim_end_matches(".lua");
        let is_shared = name.starts_with("shared/");
        let use_of_it = match is_shared {
            true => format!("\n-- require {word:?}\n"),
            false => format!(" = {word:?}"),
        };
        assert!(used.contains(&use_of_it), "{name} is used nowhere");
        let text = read(&file);
        let (header, code): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("--"));
        let purpose = header.iter().take_while(|line| **line != "--");
        let purpose: Vec<&&str> = purpose.collect();
        assert!(!purpose.is_empty(), "{name}: no header");
        // Shared functions have no keys and arguments of their own.
        if is_shared {
            continue;
        }
        let is_sentence = purpose.last().is_some_and(|line| line.ends_with('.'));
        assert!(is_sentence && purpose.len() <= 2, "{name}: {purpose:?}");
        let documents = |part: &str| header.iter().any(|line| line.contains(part));
        assert!(documents("-- KEYS[") && documents("-- reply"), "{name}");
        let mut code = code.join("\n");
        if header.contains(&"-- require \"once\"") {
            code += &once;
        }
        for kind in ["KEYS", "ARGV"] {
            if documents(&format!("-- {kind}[i]")) || documents(&format!("-- {kind}[2i")) {
                continue;
            }
            for number in 1..=4 {
                let part = format!("{kind}[{number}]");
                assert_eq!(code.contains(&part), documents(&part), "{name}: {part}");
            }
        }
    }
}
