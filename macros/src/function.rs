//! The function with the attribute, and the checks of its signature.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Result, ReturnType, Signature, Token, Type, TypePath, Visibility, braced,
    parse_quote_spanned, token,
};

const ASYNC: &str = "an `async fn` cannot be locked: a lock belongs to one thread, and a future \
                     may run on several; write a blocking `fn`, and call it with your runtime's \
                     `spawn_blocking`";

const NO_RESULT: &str = "a locked function must return a `Result`, to report errors of the lock; \
                         write `-> Result<T, E>` where `E: From<leasehold::Error>`";

/// A function, or a declaration of one.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: Option<Body>,
}

/// The body; its statements are not parsed.
pub(crate) struct Body {
    pub(crate) braces: token::Brace,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) statements: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let start = input.span();
        if !begins_a_function(&input.fork())? {
            return Err(syn::Error::new(
                start,
                "`#[locked]` applies to functions; \
                 write it before a `fn`, or before each `fn` of an `impl`",
            ));
        }
        Ok(Self {
            attributes,
            visibility,
            signature: input.parse()?,
            body: match input.parse::<Option<Token![;]>>()? {
                Some(_) => None,
                None => Some(input.parse()?),
            },
        })
    }
}

/// True if `fn` is the first word that does not qualify a function.
fn begins_a_function(input: ParseStream<'_>) -> Result<bool> {
    let words = input.parse::<TokenStream>()?.into_iter();
    let mut words = words.map(|token| token.to_string());
    let qualifies =
        |word: &str| ["const", "async", "unsafe", "extern"].contains(&word) || word.contains('"');
    let first = words.find(|word| !qualifies(word));
    Ok(first.is_some_and(|word| word == "fn"))
}

fn is_future(written: &TypePath) -> bool {
    let last = written.path.segments.last();
    let is_pin = last.is_some_and(|last| last.ident == "Pin");
    is_pin && written.to_token_stream().to_string().contains("Future")
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
    /// The reasons why the function cannot be locked; empty if it can.
    pub(crate) fn errors(&self) -> Vec<syn::Error> {
        let mut errors = Vec::new();
        let mut reject = |at: &dyn ToTokens, message: &str| {
            errors.push(syn::Error::new_spanned(at.to_token_stream(), message));
        };
        if let Some(word) = &self.signature.asyncness {
            reject(word, ASYNC);
        }
        if let Some(word) = &self.signature.constness {
            let rule = "a `const fn` cannot be locked: it may run in the compiler; write `fn`";
            reject(word, rule);
        }
        if self.body.is_none() {
            let rule = "a function without a body cannot be locked; \
                        write `#[locked]` before the function of each `impl`";
            reject(&self.signature.fn_token, rule);
        }
        // The compiler refuses other types that are not a `Result`.
        match &self.signature.output {
            ReturnType::Default => reject(&self.signature.ident, NO_RESULT),
            ReturnType::Type(_, written) => match &**written {
                Type::Tuple(unit) if unit.elems.is_empty() => reject(unit, NO_RESULT),
                // Macros such as `async_trait` turn an `async fn` into this.
                Type::Path(path) if is_future(path) => reject(path, ASYNC),
                _ => {}
            },
        }
        errors
    }

    /// The return type for the closure. Every `impl Trait` becomes `_`, because a closure cannot
    /// name it.
    pub(crate) fn result(&self) -> Type {
        struct InferImplTrait;

        impl VisitMut for InferImplTrait {
            fn visit_type_mut(&mut self, found: &mut Type) {
                match found {
                    Type::ImplTrait(opaque) => *found = parse_quote_spanned!(opaque.span()=> _),
                    _ => visit_mut::visit_type_mut(self, found),
                }
            }
        }

        let mut result = match &self.signature.output {
            ReturnType::Default => syn::parse_quote!(()),
            ReturnType::Type(_, written) => (**written).clone(),
        };
        InferImplTrait.visit_type_mut(&mut result);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn errors(function: TokenStream) -> Vec<String> {
        let function: Function = syn::parse2(function).unwrap();
        let errors = function.errors();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_type_that_may_be_a_result_is_accepted() {
        for result in [
            quote!(Result<(), E>),
            quote!(std::io::Result<u8>),
            quote!((Result<(), E>)),
            quote!(Outcome),
            quote!(Self::Outcome),
            quote!(<T as Work>::Outcome),
            quote!(outcome!()),
        ] {
            let found = errors(quote!(fn f() -> #result {}));
            assert!(found.is_empty(), "{result}: {found:?}");
        }
    }

    #[test]
    fn a_function_without_a_result_is_rejected() {
        for result in [quote!(), quote!(-> ())] {
            let found = errors(quote!(fn f() #result {}));
            assert_eq!(found, [NO_RESULT], "{result}");
        }
    }

    /// `async_trait` generates this.
    #[test]
    fn a_boxed_future_is_rejected_like_an_async_fn() {
        let found = errors(quote!(
            fn f() -> ::core::pin::Pin<Box<dyn Future<Output = Result<(), E>>>> {}
        ));
        assert_eq!(found, [ASYNC]);
    }

    #[test]
    fn every_reason_is_reported() {
        assert_eq!(
            errors(quote!(
                async fn f();
            ))
            .len(),
            3
        );
        assert_eq!(
            errors(quote!(
                const fn f() -> Result<(), E> {}
            ))
            .len(),
            1
        );
    }

    #[test]
    fn impl_trait_is_inferred() {
        let function: Function = syn::parse2(quote! {
            fn f<'a>(
                &'a self,
            ) -> Result<(impl Iterator<Item = &'a u8> + 'a, Box<dyn Fn() -> u8>), E> {}
        })
        .unwrap();
        let expected = quote!(Result<(_, Box<dyn Fn() -> u8>), E>);
        assert_eq!(
            function.result().to_token_stream().to_string(),
            expected.to_string()
        );
    }
}
