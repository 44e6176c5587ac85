//! The compile errors of the attribute.

/// Compares the errors of each file with the `.stderr` file beside it. To update these files, run
/// `TRYBUILD=overwrite cargo test --package leasehold-macros --test compile_fail -- --ignored`.
#[test]
#[ignore = "soak"]
fn errors_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
