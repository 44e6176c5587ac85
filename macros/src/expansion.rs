//! Generates the function with a lock around its body.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::arguments::{Arguments, Kind, Lease, Renewals};
use crate::duration;
use crate::function::Function;
use crate::parameters;

/// The body becomes a closure, so that `return` and `?` leave only the body. Generated names have
/// the hygiene of `mixed_site`, so the body cannot see them. The user's tokens keep their spans.
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
    let Arguments {
        client,
        prefix,
        key,
        ..
    } = arguments;
    let call = call(arguments);
    let result = function.result();
    // Errors about the return type point to where it is written.
    let run = quote_spanned!(Span::mixed_site().located_at(result.span())=> run);
    let mut signature = signature.clone();
    let captures = parameters::captures(&mut signature, &quote!(#key #prefix #client #statements));
    let mut block = TokenStream::new();
    body.braces.surround(&mut block, |within| {
        let name = quote_spanned!(Span::mixed_site()=> call);
        let mut inner = TokenStream::new();
        body.braces.surround(&mut inner, |within| {
            within.extend(captures);
            within.extend(statements.clone());
        });
        quote!(#(#inner_attributes)*).to_tokens(within);
        within.extend(quote_spanned! {Span::mixed_site()=>
            let #name = #call;
            #name.#run(move || -> #result #inner)
        });
    });
    quote!(#(#attributes)* #visibility #signature #block)
}

/// The expression that describes the lock. It is evaluated before the closure moves the parameters.
fn call(arguments: &Arguments) -> TokenStream {
    let Arguments {
        client,
        prefix,
        key,
        lease,
        wait,
        kind,
        ignores_loss,
    } = arguments;
    let key = reference(key);
    let mut call = quote_spanned!(Span::mixed_site()=> ::leasehold::__LockedCall::new(#key));
    let mut append = |tokens: TokenStream| call.extend(tokens);
    if let Some(prefix) = prefix {
        let prefix = reference(prefix);
        append(quote_spanned!(Span::mixed_site()=> .prefix(#prefix)));
    }
    if let Some(client) = client {
        let client = reference(client);
        append(quote_spanned!(Span::mixed_site()=> .client(#client)));
    }
    let lease = lease_tokens(*lease);
    append(quote_spanned!(Span::mixed_site()=> .lease(#lease)));
    let wait = wait.map(duration::tokens).map_or_else(
        || quote_spanned!(Span::mixed_site()=> .wait_forever()),
        |wait| quote_spanned!(Span::mixed_site()=> .wait(#wait)),
    );
    append(wait);
    match kind {
        Kind::Reentrant => {}
        Kind::Fenced => append(quote_spanned!(Span::mixed_site()=> .fenced())),
        Kind::Fair => append(quote_spanned!(Span::mixed_site()=> .fair())),
        Kind::Read => append(quote_spanned!(Span::mixed_site()=> .read())),
        Kind::Write => append(quote_spanned!(Span::mixed_site()=> .write())),
    }
    if *ignores_loss {
        append(quote_spanned!(Span::mixed_site()=> .ignore_loss()));
    }
    call
}

/// A reference to the user's expression, with its span, so that type errors point to it.
fn reference(value: &(impl ToTokens + Spanned)) -> TokenStream {
    quote_spanned!(Span::mixed_site().located_at(value.span())=> &(#value))
}

fn lease_tokens(lease: Lease) -> TokenStream {
    let duration = lease.duration.map(duration::tokens);
    let lasting = duration
        .as_ref()
        .map(|duration| quote_spanned!(Span::mixed_site()=> .lasting(#duration)));
    match lease.renewals {
        Renewals::None => quote_spanned!(Span::mixed_site()=> ::leasehold::Lease::fixed(#duration)),
        Renewals::AtMost(count) => quote_spanned! {Span::mixed_site()=>
            ::leasehold::Lease::renewed_at_most(#count) #lasting
        },
        Renewals::Unlimited => {
            quote_spanned!(Span::mixed_site()=> ::leasehold::Lease::RENEWED #lasting)
        }
    }
}
