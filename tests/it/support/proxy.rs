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

#[path = "../../../src/script/source.rs"]
mod source;

/// The names and the sources of the library's scripts.
pub fn library_scripts(repository: &Path) -> Vec<(String, String)> {
    let files = std::fs::read_dir(repository.join("lua")).expect("the folder");
    let files = files.map(|file| file.expect("a file").path());
    let scripts = files.filter(|file| file.is_file()).map(|file| {
        let name = file.file_stem().expect("a name").to_string_lossy();
        let text = std::fs::read_to_string(&file).expect("a script");
        (name.into_owned(), source::joined(&text))
    });
    scripts.collect()
}

/// The source of the library's script with this name.
pub fn library_script(name: &str) -> String {
    let mut scripts = library_scripts(repository()).into_iter();
    let script = scripts.find(|(script, _)| script == name);
    script.expect("a script of the library").1
}

/// The root of the repository. Packages in several of its folders include this module.
pub fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors();
    let root = folders.find(|folder| folder.join("lua/acquire.lua").is_file());
    root.expect("the package is in the repository")
}
