//! The parameters go into the body, so that what they are is dropped while the lock is held.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FieldPat, FnArg, Meta, PatIdent, Signature, Token};

/// Statements for the start of the body, a closure that moves what it mentions. It mentions all that has a
/// name, and as a whole: a field alone would leave the rest outside. The last parameter comes first, because closures drop
/// in this order, and functions drop the first parameter last.
///
/// `text` is all that the user wrote where parameters are seen.
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
                // The parameter is used from now on: what is unused, if anything, is its capture.
                let moved = typed.attrs.extract_if(.., |it| expects_no_use(it));
                let mut attributes: Vec<_> = moved.collect();
                // Others are for other macros, which look for them at the parameters only.
                let stays = |it: &&Attribute| {
                    ["cfg", "allow", "warn", "deny"]
                        .iter()
                        .any(|name| is(it, name))
                };
                attributes.extend(typed.attrs.iter().filter(stays).cloned());
                let captures = names.0.iter().rev().map(|name| capture(name, &words));
                // In one block, as one expectation is for all names of a pattern.
                statements
                    .push(quote_spanned!(Span::mixed_site()=> #(#attributes)* { #(#captures)* }));
            }
        }
    }
    statements.into_iter().rev().collect()
}

/// Other expectations are met where the parameter is.
fn expects_no_use(attribute: &Attribute) -> bool {
    let lints = Punctuated::<Meta, Token![,]>::parse_terminated;
    is(attribute, "expect")
        && attribute.parse_args_with(lints).is_ok_and(|lints| {
            let mut paths = lints.iter().map(Meta::path);
            paths.any(|lint| lint.is_ident("unused_variables") || lint.is_ident("unused"))
        })
}

/// What nobody mentions gets a variable of its name, so that the compiler still tells that it is unused.
fn capture(name: &Ident, words: &HashSet<String>) -> TokenStream {
    let text = name.unraw().to_string();
    let variable = if words.contains(&text) {
        quote_spanned!(Span::mixed_site()=> _)
    } else {
        name.to_token_stream()
    };
    // Whoever named it so did not mean to use it, and does not.
    let allow = text
        .starts_with('_')
        .then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)]));
    quote_spanned!(Span::mixed_site()=> #allow let #variable = &#name;)
}

/// Within strings, too, as the format of a key is one.
fn words(text: &TokenStream) -> HashSet<String> {
    let text = text.to_string();
    let words = text.split(|at: char| !at.is_alphanumeric() && at != '_');
    words.map(str::to_owned).collect()
}

fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

/// What a pattern binds, but for what is there on a condition only.
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
