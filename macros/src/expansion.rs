//! What is written in place of the function: the same, with a lock around its body.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::arguments::{Arguments, Kind, Lease, Renewals};
use crate::duration;
use crate::function::Function;
use crate::parameters;

/// The body becomes a closure, so that `return` and `?` end it and not the lock around it. Names of ours
/// are of a mixed site: the body does not see them. All that the user wrote keeps its place.
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
    // What the compiler has to say of the result is said where it is written.
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

/// How the lock is taken, evaluated before the body, while the parameters are still there.
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
    let mut then = |more: TokenStream| call.extend(more);
    if let Some(prefix) = prefix {
        let prefix = reference(prefix);
        then(quote_spanned!(Span::mixed_site()=> .prefix(#prefix)));
    }
    if let Some(client) = client {
        let client = reference(client);
        then(quote_spanned!(Span::mixed_site()=> .client(#client)));
    }
    let lease = lease_tokens(*lease);
    then(quote_spanned!(Span::mixed_site()=> .lease(#lease)));
    let wait = wait.map(duration::tokens).map_or_else(
        || quote_spanned!(Span::mixed_site()=> .wait_forever()),
        |wait| quote_spanned!(Span::mixed_site()=> .wait(#wait)),
    );
    then(wait);
    if *kind == Kind::Fenced {
        then(quote_spanned!(Span::mixed_site()=> .fenced()));
    }
    if *ignores_loss {
        then(quote_spanned!(Span::mixed_site()=> .ignore_loss()));
    }
    call
}

/// Of what the user wrote; the compiler points there if it is of the wrong type.
fn reference(value: &(impl ToTokens + Spanned)) -> TokenStream {
    quote_spanned!(Span::mixed_site().located_at(value.span())=> &(#value))
}

fn lease_tokens(lease: Lease) -> TokenStream {
    let length = lease.length.map(duration::tokens);
    let lasting = length
        .as_ref()
        .map(|length| quote_spanned!(Span::mixed_site()=> .lasting(#length)));
    match lease.renewals {
        Renewals::None => quote_spanned!(Span::mixed_site()=> ::leasehold::Lease::fixed(#length)),
        Renewals::AtMost(count) => {
            quote_spanned!(Span::mixed_site()=> ::leasehold::Lease::renewed_at_most(#count) #lasting)
        }
        Renewals::Unlimited => {
            quote_spanned!(Span::mixed_site()=> ::leasehold::Lease::RENEWED #lasting)
        }
    }
}
