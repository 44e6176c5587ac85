//! Compiles the library for the simulated world.

fn main() {
    println!("cargo:rustc-cfg=simulation");
}
