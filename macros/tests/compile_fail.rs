//! What the attribute refuses, and in which words.

/// Each file beside its messages, `tests/compile_fail/*.stderr`. After a change of theirs on purpose, or of the
/// compiler's: `TRYBUILD=overwrite cargo test --package leasehold-macros --test compile_fail`.
#[test]
#[ignore = "soak"]
fn what_is_refused_is_told_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
