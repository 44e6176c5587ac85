//! Generates the function with a lock around its body.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::arguments::Arguments;
use crate::function::Function;
use crate::parameters;

/// The body becomes a closure, so that `return` and `?` leave only the body. Generated names have
/// the hygiene of `mixed_site`, so the body cannot see them. The user's tokens keep their spans.
/// The lock is described before the closure moves the parameters.
pub(crate) fn expand(arguments: &Arguments, function: &Function) -> TokenStream {
    let Function {
        attributes,
        visibility,
        signature,
        body: Some(body),
    } = function
    else {
        return TokenStream::new();
    };
    let (inner_attributes, statements) = (&body.attributes, &body.statements);
    let Arguments { call, text } = arguments;
    let result = function.result();
    // Errors about the return type point to where it is written.
    let run = quote_spanned!(Span::mixed_site().located_at(result.span())=> run);
    let mut signature = signature.clone();
    let captures = parameters::captures(&mut signature, &quote!(#text #statements));
    let mut block = TokenStream::new();
    body.braces.surround(&mut block, |within| {
        let inner = quote!(#captures #statements);
        let mut block = TokenStream::new();
        body.braces
            .surround(&mut block, |within| within.extend(inner));
        within.extend(quote_spanned! {Span::mixed_site()=>
            #(#inner_attributes)*
            let call = #call;
            call.#run(move || -> #result #block)
        });
    });
    quote!(#(#attributes)* #visibility #signature #block)
}
