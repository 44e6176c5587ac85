//! Moves the parameters into the body, so that they are dropped while the lock is held.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FieldPat, FnArg, Meta, PatIdent, Signature, Token};

/// Attributes of a parameter that its capture needs, too.
const STAYING: [&str; 4] = ["cfg", "allow", "warn", "deny"];

/// Statements for the start of the body. The body is a closure that moves what it mentions, so they
/// mention each variable as a whole: a use of one field would capture only that field. The last
/// parameter comes first: a closure drops its captures in the order of their first use, and a
/// function drops its last parameter first.
///
/// `text` is all user code that can use the parameters.
pub(crate) fn captures(signature: &mut Signature, text: &TokenStream) -> TokenStream {
    let words = words(text);
    let mut statements = Vec::new();
    for parameter in &mut signature.inputs {
        match parameter {
            FnArg::Receiver(receiver) => {
                let name = receiver.self_token;
                statements.push(quote_spanned!(Span::mixed_site()=> let _ = &#name;));
            }
            FnArg::Typed(typed) => {
                let mut names = Names::default();
                names.visit_pat_mut(&mut typed.pat.clone());
                if names.0.is_empty() {
                    continue;
                }
                // The capture uses the parameter. So the lint for an unused one must move to the
                // capture.
                let moved = typed.attrs.extract_if(.., |it| expects_unused(it));
                let mut attributes: Vec<_> = moved.collect();
                // Other attributes stay at the parameter, where other macros expect them.
                let stays = |it: &&Attribute| STAYING.iter().any(|name| is(it, name));
                attributes.extend(typed.attrs.iter().filter(stays).cloned());
                let captures = names.0.iter().rev().map(|name| capture(name, &words));
                // One block for each pattern, because one `expect` applies to all its names.
                statements
                    .push(quote_spanned!(Span::mixed_site()=> #(#attributes)* { #(#captures)* }));
            }
        }
    }
    statements.into_iter().rev().collect()
}

/// The variables of all parameters, except `self`.
pub(crate) fn names(signature: &Signature) -> Vec<Ident> {
    let mut names = Names::default();
    names.visit_signature_mut(&mut signature.clone());
    names.0
}

/// True for `#[expect(unused)]` and `#[expect(unused_variables)]`.
fn expects_unused(attribute: &Attribute) -> bool {
    let lints = Punctuated::<Meta, Token![,]>::parse_terminated;
    is(attribute, "expect")
        && attribute.parse_args_with(lints).is_ok_and(|lints| {
            let mut paths = lints.iter().map(Meta::path);
            paths.any(|lint| lint.is_ident("unused_variables") || lint.is_ident("unused"))
        })
}

/// Captures one variable. If the user does not use it, the capture gets its name, so that the
/// compiler still warns that it is unused.
fn capture(name: &Ident, words: &HashSet<String>) -> TokenStream {
    let text = name.unraw().to_string();
    let variable = if words.contains(&text) {
        quote_spanned!(Span::mixed_site()=> _)
    } else {
        name.to_token_stream()
    };
    // The user does not use a variable with an underscore; only the capture does.
    let allow = text
        .starts_with('_')
        .then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)]));
    quote_spanned!(Span::mixed_site()=> #allow let #variable = &#name;)
}

/// All identifiers in the text, including those in strings, because a key may be a format string.
fn words(text: &TokenStream) -> HashSet<String> {
    let text = text.to_string();
    let words = text.split(|at: char| !at.is_alphanumeric() && at != '_');
    words.map(str::to_owned).collect()
}

fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

/// The variables of a pattern, except those in fields with a `cfg` attribute.
#[derive(Default)]
struct Names(Vec<Ident>);

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, found: &mut PatIdent) {
        self.0.push(found.ident.clone());
        visit_mut::visit_pat_ident_mut(self, found);
    }

    fn visit_field_pat_mut(&mut self, found: &mut FieldPat) {
        if !found.attrs.iter().any(|it| is(it, "cfg")) {
            visit_mut::visit_field_pat_mut(self, found);
        }
    }
}
