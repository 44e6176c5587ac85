//! Compiles the library for the simulated world, without its features.

fn main() {
    println!("cargo:rustc-cfg=simulation");
    let features = r#""macros", "metrics", "serde", "testing", "tls""#;
    println!("cargo:rustc-check-cfg=cfg(feature, values({features}))");
}
