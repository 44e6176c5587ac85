//! The fault proxy of `leasehold::testing`, and the sources of this repository.

#![allow(dead_code, reason = "each program that includes it uses a part")]
#![allow(unreachable_pub, reason = "a program may include it anywhere")]

use std::path::Path;

#[allow(unused_imports, reason = "each program that includes it uses a part")]
pub use leasehold::testing::{Fault, FaultProxy as Proxy, Gate, ProxiedRequest as Request};

/// A proxy for clients of the server at `host:port`.
pub fn before(upstream: &str) -> Proxy {
    Proxy::start(upstream).expect("a loopback port")
}

/// The names and the texts of the library's scripts: each is one or more files of `lua/`, the last
/// of which gives it its name.
pub fn library_scripts(repository: &Path) -> Vec<(String, String)> {
    let list = std::fs::read_to_string(repository.join("src/script/mod.rs")).unwrap_or_default();
    let scripts = list.lines().filter_map(|line| line.split_once(" = \""));
    let files = scripts.map(|(_, files)| files.split('"').filter(|file| file.ends_with(".lua")));
    let texts = files.filter_map(|files| {
        let name = files.clone().next_back()?.strip_suffix(".lua")?.to_owned();
        let read = |file| std::fs::read_to_string(repository.join("lua").join(file)).ok();
        Some((name, files.map(read).collect::<Option<String>>()?))
    });
    texts.collect()
}

/// The root of the repository. Packages in several of its folders include this module.
pub fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors();
    let root = folders.find(|folder| folder.join("lua/acquire.lua").is_file());
    root.expect("the package is in the repository")
}
