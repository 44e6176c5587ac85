//! The figures of a comparison: the program that measures writes them, the pictures read them.

pub mod figures;
pub mod histogram;
pub mod results;
pub mod table;
pub mod verdicts;

/// A result whose error says what failed.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
