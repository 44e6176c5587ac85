//! The function below the attribute, and what it must be.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Result, ReturnType, Signature, Token, Type, Visibility, braced, token};

/// Types that everybody knows to be no `Result`.
const NO_RESULTS: &[&str] = &[
    "Arc", "Box", "Option", "PathBuf", "Rc", "String", "Vec", "bool", "char", "f32", "f64", "i128",
    "i16", "i32", "i64", "i8", "isize", "str", "u128", "u16", "u32", "u64", "u8", "usize",
];

const ASYNC: &str = "an `async fn` cannot be locked: a lock belongs to one thread, and this runs on many; \
                     write a blocking `fn`, and call it by your runtime's `spawn_blocking`";

/// A function, or a declaration of one.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: Option<Body>,
}

/// Not looked into: the compiler does that better.
pub(crate) struct Body {
    pub(crate) braces: token::Brace,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) statements: TokenStream,
}

/// Why there can be no lock around a function, once for each reason.
#[derive(Debug)]
pub(crate) struct Rejected(pub(crate) Vec<syn::Error>);

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let start = input.span();
        if !begins_a_function(&input.fork()) {
            return Err(syn::Error::new(
                start,
                "`#[locked]` locks a function, and this is none; write it before a `fn`, or before each `fn` of an `impl`",
            ));
        }
        let signature = input.parse()?;
        let body = if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            None
        } else {
            Some(input.parse()?)
        };
        Ok(Self {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

fn begins_a_function(input: ParseStream<'_>) -> bool {
    while !input.is_empty() && !input.peek(token::Brace) {
        if input.peek(Token![fn]) {
            return true;
        }
        let qualifies = input.parse::<Token![const]>().is_ok()
            || input.parse::<Token![async]>().is_ok()
            || input.parse::<Token![unsafe]>().is_ok()
            || input.parse::<syn::Abi>().is_ok();
        if !qualifies {
            return false;
        }
    }
    false
}

impl Parse for Body {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let content;
        Ok(Self {
            braces: braced!(content in input),
            attributes: content.call(Attribute::parse_inner)?,
            statements: content.parse()?,
        })
    }
}

impl Function {
    /// Fails for what cannot be run while a lock is held, or cannot tell that it is not.
    pub(crate) fn check(&self) -> std::result::Result<(), Rejected> {
        let mut errors = Vec::new();
        let mut refuse = |at: &dyn ToTokens, why: &str| {
            errors.push(syn::Error::new_spanned(at.to_token_stream(), why));
        };
        if let Some(word) = &self.signature.asyncness {
            refuse(word, ASYNC);
        }
        if let Some(word) = &self.signature.constness {
            refuse(
                word,
                "a `const fn` cannot be locked: the compiler may run it; write `fn`",
            );
        }
        if self.body.is_none() {
            refuse(
                &self.signature.fn_token,
                "a function without a body cannot be locked; write `#[locked]` before those of each `impl`",
            );
        }
        if let ReturnType::Type(_, written) = &self.signature.output
            && is_named(written, &["Pin"])
            && written.to_token_stream().to_string().contains("Future")
        {
            // What `async_trait` and its like have made of one.
            refuse(written, ASYNC);
        } else if let Some(place) = self.no_result() {
            refuse(
                place,
                "a locked function returns a `Result`, by which its caller learns that somebody else has the lock; \
                 write `-> Result<T, E>` where `E: From<leasehold::Error>`",
            );
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Rejected(errors))
        }
    }

    /// Where it says that it returns no `Result`, as far as that can be seen here.
    fn no_result(&self) -> Option<&dyn ToTokens> {
        match &self.signature.output {
            ReturnType::Default => Some(&self.signature.ident),
            ReturnType::Type(_, written) if is_no_result(written) => Some(written),
            ReturnType::Type(..) => None,
        }
    }

    /// The type of the result, where every `impl Trait` is for the compiler to find out: that is what
    /// a closure can be said to return.
    pub(crate) fn result(&self) -> Type {
        struct Blank;

        impl VisitMut for Blank {
            fn visit_type_mut(&mut self, found: &mut Type) {
                if let Type::ImplTrait(opaque) = found {
                    let underscore = Token![_](opaque.span());
                    *found = Type::Infer(syn::TypeInfer {
                        attrs: Vec::new(),
                        underscore_token: underscore,
                    });
                } else {
                    visit_mut::visit_type_mut(self, found);
                }
            }
        }

        let mut result = match &self.signature.output {
            ReturnType::Default => syn::parse_quote!(()),
            ReturnType::Type(_, written) => (**written).clone(),
        };
        Blank.visit_type_mut(&mut result);
        result
    }
}

fn is_no_result(found: &Type) -> bool {
    match found {
        Type::Paren(inner) => is_no_result(&inner.elem),
        Type::Group(inner) => is_no_result(&inner.elem),
        Type::Path(_) => is_named(found, NO_RESULTS),
        Type::Macro(_) | Type::Verbatim(_) | Type::Infer(_) => false,
        _ => true,
    }
}

/// By the last word of its path.
fn is_named(found: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = found else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn refusals(function: TokenStream) -> Vec<String> {
        let function: Function = syn::parse2(function).unwrap();
        let refused = function
            .check()
            .err()
            .map_or(Vec::new(), |refused| refused.0);
        refused.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_may_be_a_result_is_taken() {
        for result in [
            quote!(Result<(), E>),
            quote!(std::io::Result<u8>),
            quote!((Result<(), E>)),
            quote!(Outcome),
            quote!(Self::Outcome),
            quote!(<T as Work>::Outcome),
            quote!(outcome!()),
        ] {
            let found = refusals(quote!(fn f() -> #result {}));
            assert!(found.is_empty(), "{result}: {found:?}");
        }
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for result in [
            quote!(),
            quote!(-> ()),
            quote!(-> !),
            quote!(-> u32),
            quote!(-> (u8, Result<(), E>)),
            quote!(-> &Result<(), E>),
            quote!(-> [u8; 3]),
            quote!(-> Option<u8>),
            quote!(-> std::option::Option<u8>),
            quote!(-> Box<dyn Error>),
            quote!(-> impl Iterator<Item = u8>),
            quote!(-> fn() -> Result<(), E>),
        ] {
            let found = refusals(quote!(fn f() #result {}));
            assert_eq!(found.len(), 1, "{result}");
            assert!(found[0].contains("-> Result<T, E>"), "{result}: {found:?}");
        }
    }

    /// As `async_trait` leaves it.
    #[test]
    fn what_was_an_async_fn_is_refused_as_one() {
        let found = refusals(quote!(
            fn f() -> ::core::pin::Pin<Box<dyn Future<Output = Result<(), E>>>> {}
        ));
        assert_eq!(found, [ASYNC]);
    }

    #[test]
    fn every_reason_is_told() {
        assert_eq!(
            refusals(quote!(
                async fn f();
            ))
            .len(),
            3
        );
        assert_eq!(
            refusals(quote!(
                const fn f() -> Result<(), E> {}
            ))
            .len(),
            1
        );
    }

    #[test]
    fn the_compiler_finds_out_what_impl_trait_is() {
        let function: Function = syn::parse2(quote! {
            fn f<'a>(&'a self) -> Result<(impl Iterator<Item = &'a u8> + 'a, Box<dyn Fn() -> u8>), E> {}
        })
        .unwrap();
        let expected = quote!(Result<(_, Box<dyn Fn() -> u8>), E>);
        assert_eq!(
            function.result().to_token_stream().to_string(),
            expected.to_string()
        );
    }

    #[test]
    fn what_is_no_function_is_told() {
        for item in [
            quote!(
                struct S;
            ),
            quote!(
                impl S {
                    fn f() {}
                }
            ),
            quote!(
                mod m {}
            ),
        ] {
            let error = syn::parse2::<Function>(item).err().unwrap();
            assert!(error.to_string().contains("before a `fn`"), "{error}");
        }
    }
}
