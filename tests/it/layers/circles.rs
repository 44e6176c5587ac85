//! The files of a folder do not import each other in a circle.
//!
//! A subfolder counts as one file. The module's own file (`mod.rs`) is left out: it may use the
//! files of its folder, and they may use what it defines. An import of a name that it re-exports
//! counts as an import of the file that defines the name. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{code, files, is_test, read, repository, without_tests};

/// The names of the modules from the root of the crate on.
type ModulePath = Vec<String>;

/// For each file of a folder, the files of the same folder that it imports from.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The modules of one crate.
#[derive(Default)]
struct Crate {
    /// The paths in each file, and whether a path is re-exported.
    paths: BTreeMap<ModulePath, Vec<(ModulePath, bool)>>,
    /// What a path means, if a module only re-exports its last name.
    re_exports: BTreeMap<ModulePath, ModulePath>,
}

impl Crate {
    fn of(root: &str) -> Self {
        let mut found = Self::default();
        for file in files(root, "rs") {
            if !is_test(&file) {
                let module = module_path(file.strip_prefix(root).unwrap());
                found.paths.insert(module, paths(&read(&file)));
            }
        }
        for (module, paths) in &found.paths {
            for path in paths
                .iter()
                .filter_map(|(path, public)| public.then_some(path))
            {
                let target = found.absolute(module, path);
                if let (Some(target), Some(name)) = (target, path.last()) {
                    let name = [module.as_slice(), std::slice::from_ref(name)].concat();
                    found.re_exports.insert(name, target);
                }
            }
        }
        found
    }

    /// A path from the root of the crate on; `None` for a path into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => &[],
            "super" => module.split_last()?.1,
            "self" => module,
            _ => {
                let child = [module, std::slice::from_ref(first)].concat();
                return self
                    .paths
                    .contains_key(&child)
                    .then(|| [module, path].concat());
            }
        };
        Some([base, rest].concat())
    }

    /// The module that defines what a path leads to.
    fn defining_module(&self, path: &[String]) -> ModulePath {
        let is_module = |length: &usize| self.paths.contains_key(&path[..*length]);
        let length = (1..=path.len()).take_while(is_module).last().unwrap_or(0);
        let name = path.get(..=length);
        match name.and_then(|name| self.re_exports.get(name)) {
            Some(target) if target != path => {
                self.defining_module(&[target, &path[length + 1..]].concat())
            }
            _ => path[..length].to_vec(),
        }
    }

    /// The imports between the files of each folder.
    fn imports(&self) -> BTreeMap<ModulePath, Imports> {
        let mut folders: BTreeMap<ModulePath, Imports> = BTreeMap::new();
        for (module, paths) in &self.paths {
            for target in paths
                .iter()
                .filter_map(|(path, _)| self.absolute(module, path))
            {
                let target = self.defining_module(&target);
                let both = module.iter().zip(&target);
                let common = both.take_while(|(one, other)| one == other).count();
                if let (Some(file), Some(used)) = (module.get(common), target.get(common)) {
                    let folder = folders.entry(module[..common].to_vec()).or_default();
                    folder.entry(file.clone()).or_default().insert(used.clone());
                }
            }
        }
        folders
    }
}

/// `["lock", "guard"]` for `lock/guard.rs`, `["lock"]` for `lock/mod.rs`.
fn module_path(file: &Path) -> ModulePath {
    let parts = file.with_extension("");
    let mut parts: ModulePath = parts
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if ["lib", "main", "mod"].contains(&parts.last().unwrap().as_str()) {
        parts.pop();
    }
    parts
}

/// Each path of a file that begins in its crate, and whether it is re-exported.
fn paths(text: &str) -> Vec<(ModulePath, bool)> {
    let code: Vec<&str> = code(without_tests(text)).map(|(_, code)| code).collect();
    let code = code.join("\n");
    let tokens = tokens(&code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before]);
        let is_use = tokens[at] == "use";
        let is_path = ["crate", "self", "super"].contains(&tokens[at])
            && before != "::"
            && tokens.get(at + 1) == Some(&"::");
        at += usize::from(!is_path);
        if is_use || is_path {
            let is_public = is_use && ["pub", ")"].contains(&before);
            let tree = use_tree(&tokens, &mut at);
            found.extend(tree.into_iter().map(|path| (path, is_public)));
        }
    }
    found
}

/// Words, `::`, and all other characters one by one.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match rest.find(|c| !is_word(c)) {
            Some(0) if rest.starts_with("::") => 2,
            Some(0) => first.len_utf8(),
            length => length.unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start();
    }
    tokens
}

/// The paths of the `use` tree at `at`, which is moved behind the tree.
fn use_tree(tokens: &[&str], at: &mut usize) -> Vec<ModulePath> {
    let first = tokens[*at];
    *at += 1;
    if first == "{" {
        let mut found = Vec::new();
        while tokens[*at] != "}" {
            match tokens[*at] {
                "," => *at += 1,
                "as" => *at += 2,
                _ => found.extend(use_tree(tokens, at)),
            }
        }
        *at += 1;
        return found;
    }
    let mut found = vec![Vec::new()];
    if tokens.get(*at) == Some(&"::") && tokens.get(*at + 1) != Some(&"<") {
        *at += 1;
        found = use_tree(tokens, at);
    }
    for path in &mut found {
        path.insert(0, first.to_owned());
    }
    found
}

/// All files that a file imports from, directly or through other files of the folder.
fn reachable<'a>(imports: &'a Imports, file: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for used in imports.get(file).into_iter().flatten() {
            if found.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    found
}

/// The files of each circle.
fn circles(imports: &Imports) -> BTreeSet<Vec<&str>> {
    let mut found = BTreeSet::new();
    for file in imports.keys() {
        let mut circle = reachable(imports, file);
        circle.retain(|other| reachable(imports, other).contains(file.as_str()));
        if !circle.is_empty() {
            found.insert(circle.into_iter().collect());
        }
    }
    found
}

#[test]
fn the_files_of_a_folder_import_each_other_in_no_circle() {
    let mut found = BTreeSet::new();
    let roots = ["src", "cli/src", "macros/src", "testing/src"].into_iter();
    for root in roots.filter(|root| repository().join(root).exists()) {
        for (folder, imports) in Crate::of(root).imports() {
            let folder = [&[root.to_owned()], folder.as_slice()].concat().join("/");
            for circle in circles(&imports) {
                for (file, used) in imports
                    .iter()
                    .filter(|(file, _)| circle.contains(&file.as_str()))
                {
                    println!("{folder}: {file} imports from {used:?}");
                }
                found.insert((folder.clone(), circle.join(" ")));
            }
        }
    }
    assert!(found.is_empty(), "circles of imports: {found:#?}");
}
