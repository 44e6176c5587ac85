//! The attribute `#[locked]` of the crate `leasehold`, which re-exports and documents it.

mod arguments;
mod duration;
mod expansion;
mod function;
mod key;
mod parameters;

use proc_macro2::TokenStream;

use arguments::Arguments;
use function::{Function, Rejected};

#[allow(
    missing_docs,
    reason = "leasehold has its page, to which this would be added"
)]
#[proc_macro_attribute]
pub fn locked(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    locked_function(arguments.into(), item.into()).into()
}

/// Whatever is refused stays in its place, so that the refusal is the only error.
fn locked_function(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = syn::parse2::<Arguments>(arguments);
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        // Not even a function: what it is, the compiler says.
        Err(error) => return after(&[error], item),
    };
    let mut errors = Vec::new();
    if let Err(Rejected(refusals)) = function.check() {
        errors.extend(refusals);
    }
    match arguments {
        Ok(arguments) if errors.is_empty() => expansion::expand(&arguments, &function),
        Ok(_) => after(&errors, item),
        Err(error) => {
            errors.push(error);
            after(&errors, item)
        }
    }
}

fn after(errors: &[syn::Error], item: TokenStream) -> TokenStream {
    let refusals = errors.iter().map(syn::Error::to_compile_error);
    refusals.chain([item]).collect()
}
