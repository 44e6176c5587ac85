//! The attribute `#[locked]` of the crate `leasehold`.
//!
//! Use `leasehold::locked`, which re-exports it. Its documentation is there, because it links to
//! the types of that crate.

mod arguments;
mod duration;
mod expansion;
mod function;
mod key;
mod literal;
mod parameters;

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};

use arguments::Arguments;
use function::Function;

#[allow(
    missing_docs,
    reason = "rustdoc would append it to the documentation at the re-export"
)]
#[proc_macro_attribute]
pub fn locked(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    locked_function(arguments.into(), item.into()).into()
}

/// Returns the locked function. On an error, returns the unchanged item after the error, so that
/// the item stays defined and causes no further errors.
fn locked_function(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => return with_errors(&[error], item),
    };
    let mut errors = function.errors();
    let parameters = parameters::names(&function.signature);
    let parser = |input: ParseStream<'_>| Arguments::parse(input, &parameters);
    let arguments = parser.parse2(arguments).map_err(|error| errors.push(error));
    match arguments {
        Ok(arguments) if errors.is_empty() => expansion::expand(&arguments, &function),
        _ => with_errors(&errors, item),
    }
}

fn with_errors(errors: &[syn::Error], item: TokenStream) -> TokenStream {
    let errors = errors.iter().map(syn::Error::to_compile_error);
    errors.chain([item]).collect()
}
