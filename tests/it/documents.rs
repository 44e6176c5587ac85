//! What the documents refer to exists.

use std::path::{Path, PathBuf};

use crate::support::proxy::repository;

const DOCUMENTS: [&str; 12] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "benches/README.md",
    "benches/peers/README.md",
    "docs/command.md",
    "docs/decisions.md",
    "docs/deployments.md",
    "docs/operations.md",
    "docs/promises.md",
    "docs/redisson.md",
    "tests/README.md",
];

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
fn the_tests_that_the_architecture_names_exist() {
    let root = repository();
    let text = read(&root.join("ARCHITECTURE.md"));
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

#[test]
fn the_files_that_documents_link_to_exist() {
    for document in DOCUMENTS {
        let document = repository().join(document);
        let text = read(&document);
        let inline = text.split("](").skip(1).map(|rest| rest.split(')').next());
        let defined = text.split("\n[").skip(1).map(|line| {
            let (_, target) = line.lines().next()?.split_once("]: ")?;
            Some(target)
        });
        for target in inline.chain(defined).flatten() {
            let file = target.split('#').next().unwrap_or_default();
            if !target.starts_with("http") && !file.is_empty() {
                let file = document.with_file_name(file);
                assert!(file.exists(), "{}: {target}", document.display());
            }
        }
    }
}
