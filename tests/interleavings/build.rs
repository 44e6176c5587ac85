//! Compiles what only tests of the library use.

fn main() {
    println!("cargo:rustc-cfg=interleavings");
}
