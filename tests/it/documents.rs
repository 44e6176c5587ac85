//! What the documents refer to exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::proxy::repository;

/// Beside all pages in `docs`.
const DOCUMENTS: [&str; 6] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "benches/README.md",
    "benches/peers/README.md",
    "tests/README.md",
];

/// Pages whose code is that of examples, with the folder of these.
const WITH_EXAMPLES: [(&str, &str); 3] = [
    ("docs/monitoring.md", "examples/monitoring"),
    ("docs/recipes.md", "examples/recipes"),
    ("docs/tokio.md", "examples/tokio"),
];

/// All pages in `docs`.
fn pages() -> Vec<PathBuf> {
    files_in(&repository().join("docs"), "md")
}

fn files_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|found| found == ending))
        .collect();
    assert!(!files.is_empty(), "{}", folder.display());
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether there is a test, or a module of tests, at this path below `folder`.
fn exists(folder: PathBuf, test: &str) -> bool {
    let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
    let module = folder.join(module.replace("::", "/"));
    let file = |path: &Path| [path.with_extension("rs"), path.join("mod.rs")].into_iter();
    let declares = |file: PathBuf| {
        std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {name}(")))
    };
    file(&module.join(name)).any(|file| file.exists()) || file(&module).any(declares)
}

/// `it::..` is below tests/it, `model::..` below tests/model, `..::tests` and `..::tests::..` below
/// src.
#[test]
fn the_tests_that_the_architecture_and_the_promises_name_exist() {
    let root = repository();
    let text = ["ARCHITECTURE.md", "docs/promises.md"].map(|page| read(&root.join(page)));
    let text = text.concat();
    let (mut named, mut missing) = (0, Vec::new());
    for word in text.split('`').skip(1).step_by(2) {
        let (first, rest) = word.split_once("::").unwrap_or_default();
        let found = match first {
            "it" | "model" => exists(root.join("tests").join(first), rest),
            _ if word.contains("::tests") => {
                // In the module's own file, or in its file `tests`.
                exists(root.join("src"), &word.replace("::tests::", "::"))
                    || exists(root.join("src"), word)
                    || exists(root.join("src"), word.trim_end_matches("::tests"))
            }
            _ => continue,
        };
        if !found {
            missing.push(word);
        }
        named += 1;
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named > 20, "{named}");
}

/// A path is one from the root of the repository or from `src`, or in a folder that its section has
/// named before. What follows a file and a colon is defined in this file, up to the end of that part
/// of the sentence.
#[test]
fn the_files_of_the_architecture_exist_and_have_the_names_beside_them() {
    let text = read(&repository().join("ARCHITECTURE.md"));
    let (mut files, mut names, mut wrong) = (0, 0, Vec::new());
    for section in text.split("\n## ") {
        let mut folders = vec![repository().to_owned(), repository().join("src")];
        let mut beside = String::new();
        let parts: Vec<&str> = section.split('`').collect();
        for pair in parts[1..].chunks(2) {
            let (word, after) = (pair[0], pair.get(1).unwrap_or(&""));
            let is_name = word.chars().all(|c| c.is_alphanumeric() || c == '_');
            if is_path(word) {
                let found = folders.iter().map(|folder| folder.join(word));
                let found: Vec<PathBuf> = found.filter(|path| path.exists()).collect();
                if found.is_empty() {
                    wrong.push(word.to_owned());
                }
                let of_files = found.iter().filter(|path| path.is_file());
                beside = match after.starts_with(':') {
                    true => of_files.map(|file| read(file)).collect(),
                    false => String::new(),
                };
                for path in found {
                    let folder = if path.is_dir() {
                        &path
                    } else {
                        path.parent().unwrap()
                    };
                    if !folders.iter().any(|known| known == folder) {
                        folders.push(folder.to_owned());
                    }
                }
                files += 1;
            } else if is_name && !beside.is_empty() {
                if !defines(&beside, word) {
                    wrong.push(format!("{word} is not defined in the file before it"));
                }
                names += 1;
            }
            if [";", ")", "|", ". ", ".\n", "\n\n"]
                .iter()
                .any(|end| after.contains(end))
            {
                beside.clear();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(files > 150 && names > 15, "{files} {names}");
}

fn defines(source: &str, name: &str) -> bool {
    let words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let kinds = ["const", "enum", "fn", "macro_rules", "static", "struct"];
    words
        .windows(2)
        .any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
}

/// A file with an ending, or a folder.
fn is_path(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_./".contains(c);
    let (_, ending) = word.rsplit_once('.').unwrap_or_default();
    let endings = ["rs", "lua", "md", "roff", "stderr", "svg", "yml"];
    word.chars().all(is_part) && (word.contains('/') || endings.contains(&ending))
}

/// `publish` is the first argument of a call, or the command itself.
#[test]
fn the_table_of_messages_has_each_script_that_publishes() {
    let table = read(&repository().join("src/protocol/message.rs"));
    let lua = repository().join("lua");
    let mut scripts = 0;
    for file in [files_in(&lua, "lua"), files_in(&lua.join("shared"), "lua")].concat() {
        let text = read(&file);
        let publishes = |first: &str| text.contains(&format!("call({first},"));
        if ["publish", "'publish'", "ARGV[#ARGV]"]
            .into_iter()
            .any(publishes)
        {
            let name = file.strip_prefix(&lua).unwrap().display();
            assert!(table.contains(&format!("`{name}`")), "{name}");
            scripts += 1;
        }
    }
    assert!(scripts > 8, "{scripts}");
}

#[test]
fn the_rows_of_the_map_have_different_subjects() {
    let text = read(&repository().join("ARCHITECTURE.md"));
    let (_, map) = text.split_once("\n## The map\n").unwrap();
    let (map, _) = map.split_once("\n#").unwrap();
    let rows = map.lines().filter_map(|line| line.split('|').nth(1));
    let subjects = rows.flat_map(|row| row.split([';', ',']));
    let mut subjects: Vec<&str> = subjects.map(str::trim).collect();
    subjects.sort_unstable();
    assert!(subjects.len() > 20, "{subjects:?}");
    let same = subjects.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(same, None);
}

#[test]
fn the_files_that_documents_link_to_exist() {
    let documents = DOCUMENTS.iter().map(|document| repository().join(document));
    for document in documents.chain(pages()) {
        for target in linked_files(&read(&document)) {
            let file = document.with_file_name(&target);
            assert!(file.exists(), "{}: {target}", document.display());
        }
    }
}

/// In rustdoc there are no files beside a page: other targets of its links take their place.
#[test]
fn the_links_between_pages_lead_to_pages_of_the_guide() {
    let library = read(&repository().join("src/lib.rs"));
    let included = library.split("page!(").skip(1).filter_map(|rest| {
        let (_, page) = rest.split_once("\"../")?;
        Some((page.split('"').next()?, "src/links.md", "["))
    });
    let included: Vec<_> = included.collect();
    assert!(included.len() > 10, "{included:?}");
    let first = [("docs/promises.md", "src/lib.rs", "//! [")];
    for (page, links, before) in included.into_iter().chain(first) {
        let targets = read(&repository().join(links));
        let text = read(&repository().join(page));
        for inline in text.split("](").skip(1).map(|rest| rest.split(')').next()) {
            assert!(
                !inline.is_some_and(|target| target.contains(".md")),
                "{page}: {inline:?}"
            );
        }
        for (name, _) in text
            .lines()
            .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
        {
            let target = format!("{before}{name}]: ");
            assert!(
                targets.lines().any(|line| line.starts_with(&target)),
                "{page}: {name}"
            );
        }
    }
}

/// The files that a document links to.
fn linked_files(text: &str) -> Vec<String> {
    let inline = text.split("](").skip(1).map(|rest| rest.split(')').next());
    let defined = text.split("\n[").skip(1).map(|line| {
        let (_, target) = line.lines().next()?.split_once("]: ")?;
        Some(target)
    });
    let targets = inline.chain(defined).flatten();
    let files = targets.filter(|target| !target.starts_with("http"));
    let files = files.filter_map(|target| target.split('#').next());
    files
        .filter(|file| !file.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The files of a package, as they are published.
fn packaged(name: &str) -> Vec<String> {
    let list = Command::new(env!("CARGO"))
        .args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            name,
        ])
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    assert!(list.status.success(), "{list:?}");
    let files = String::from_utf8(list.stdout).expect("names are text");
    files.lines().map(str::to_owned).collect()
}

#[test]
fn each_package_has_its_licences_and_the_files_that_its_documents_link_to() {
    for (name, folder) in [
        ("leasehold", "."),
        ("leasehold-macros", "macros"),
        ("leasehold-testing", "testing"),
        ("leasehold-cli", "cli"),
    ] {
        let files = packaged(name);
        for needed in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(files.iter().any(|file| file == needed), "{name}: {needed}");
        }
        let is_test = |file: &&String| file.starts_with("tests/");
        assert_eq!(files.iter().find(is_test), None, "{name}");
        // The links of a file in `src` are those of rustdoc.
        let is_page = |file: &&String| file.ends_with(".md") && !file.starts_with("src/");
        for document in files.iter().filter(is_page) {
            let text = read(&repository().join(folder).join(document));
            for target in linked_files(&text) {
                let path = Path::new(document).with_file_name(&target);
                let path = path.to_str().expect("a text").replace("docs/../", "");
                assert!(
                    files.contains(&path),
                    "{name}: {document} links to {target}"
                );
            }
        }
    }
}

/// What a page shows is compiled and run with its examples.
#[test]
fn the_code_of_pages_is_that_of_their_examples() {
    for (page, folder) in WITH_EXAMPLES {
        let sources = std::fs::read_dir(repository().join(folder)).unwrap();
        let sources: Vec<String> = sources.map(|file| read(&file.unwrap().path())).collect();
        let text = read(&repository().join(page));
        let blocks = text.split("```").skip(1).step_by(2);
        let of_examples = |block| {
            let languages = ["rust,ignore\n", "yaml\n"];
            languages.iter().find_map(|it| str::strip_prefix(block, it))
        };
        let blocks: Vec<&str> = blocks.filter_map(of_examples).collect();
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            assert!(
                sources.iter().any(|source| source.contains(block)),
                "{page} has code that is not in {folder}:\n{block}"
            );
        }
    }
}

/// Times in the documentation of lock types that are no promises, and the page that has them, too.
const NO_PROMISES: [(&str, &str); 3] = [
    // The shortest lease.
    ("1 ms", "docs/settings.md"),
    // The place of a thread that waits on a condition.
    ("10 s", "docs/costs.md"),
    // A place of Redisson.
    ("five minutes", "docs/redisson.md"),
];

/// The documentation of a lock type says no time that `docs/promises.md` does not have.
#[test]
fn the_times_in_the_documentation_of_lock_types_are_those_of_the_promises() {
    let page = |page: &str| times(&read(&repository().join(page)));
    let mut known = page("docs/promises.md");
    for (time, file) in NO_PROMISES {
        let millis = times(time);
        assert_eq!(millis.len(), 1, "{time}");
        assert!(page(file).is_superset(&millis), "{file} has no {time}");
        known.extend(millis);
    }
    let mut found = 0;
    for file in files_in(&repository().join("src/lock"), "rs") {
        let times = times(&documentation(&read(&file)));
        let new: Vec<_> = times.difference(&known).collect();
        assert!(new.is_empty(), "{}: {new:?} ms", file.display());
        found += times.len();
    }
    assert!(found > 10, "{found}");
}

/// The doc comments of a source, without their code.
fn documentation(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    let lines = lines.filter_map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")));
    let text: Vec<_> = lines.collect();
    text.join("\n").split("```").step_by(2).collect()
}

/// The times in a text, such as `1.5 s`, `two minutes` or `half a second`, in milliseconds.
fn times(text: &str) -> BTreeSet<u64> {
    let is_mark = |sign: char| !sign.is_alphanumeric();
    let words = text
        .split([' ', '\n', '/'])
        .map(|word| word.trim_matches(is_mark));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let mut found = BTreeSet::new();
    for (at, unit) in words.iter().enumerate() {
        let unit = match *unit {
            "ms" => 1.0,
            "s" | "second" | "seconds" => 1e3,
            "minute" | "minutes" => 6e4,
            "hour" | "hours" => 36e5,
            _ => continue,
        };
        let number = match words[..at] {
            [.., "half", "a"] | [.., "half"] => 0.5,
            [.., "a" | "one"] => 1.0,
            [.., "two"] => 2.0,
            [.., "three"] => 3.0,
            [.., "five"] => 5.0,
            [.., "six"] => 6.0,
            [.., "ten"] => 10.0,
            [.., word] => word.parse().unwrap_or(0.0),
            [] => 0.0,
        };
        if number > 0.0 {
            found.insert((number * unit) as u64);
        }
    }
    found
}

/// The page that every user reads lets Clippy find calls that return no guard.
#[test]
fn the_clippy_toml_of_the_first_page_has_all_lock_types() {
    let page = read(&repository().join("src/lib.rs"));
    let mut types = vec!["Lock".to_owned()];
    for file in files_in(&repository().join("src/lock"), "rs") {
        if file.ends_with("methods.rs") || file.ends_with("tests.rs") {
            continue;
        }
        let source = read(&file);
        let uses = source.split("lock_by_handle!(").skip(1);
        let names = uses.filter_map(|rest| rest.split([',', ')']).next());
        types.extend(names.map(str::to_owned));
    }
    assert!(types.len() > 7, "{types:?}");
    for name in types {
        let path = format!("{{ path = \"leasehold::{name}::lock\", ");
        assert!(page.contains(&path), "{name}");
    }
}

/// Only the error of an acquire, or a `RunError`, says that the work has not run.
#[test]
fn pages_advise_to_repeat_only_what_has_not_run() {
    let root = repository();
    let mut texts: Vec<_> = pages().iter().map(|page| read(page)).collect();
    texts.push(read(&root.join("README.md")));
    texts.push(documentation(&read(&root.join("src/lib.rs"))));
    let mut advice = 0;
    for text in texts {
        let paragraphs = text.split("\n\n");
        for paragraph in paragraphs.filter(|part| part.contains("is_transient")) {
            let is_safe = ["acquire", "RunError::NotRun("]
                .iter()
                .any(|it| paragraph.contains(it));
            assert!(is_safe, "{paragraph}");
            advice += 1;
        }
    }
    assert!(advice > 2, "{advice}");
}
