//! What all values of arguments need: the text of a literal, and an error that points to a value.

use quote::ToTokens;
use syn::{Expr, LitStr, Result};

/// An error that points to `at`.
pub(crate) fn fail<T>(at: impl ToTokens, message: impl std::fmt::Display) -> Result<T> {
    Err(syn::Error::new_spanned(at, message))
}

/// The string literal that the value is.
pub(crate) fn literal(value: &Expr) -> Option<LitStr> {
    syn::parse2(value.to_token_stream()).ok()
}

/// Removes parentheses, and the invisible groups that `macro_rules!` adds, around a value.
pub(crate) fn without_groups(value: Expr) -> Expr {
    match value {
        Expr::Group(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        Expr::Paren(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        value => value,
    }
}
