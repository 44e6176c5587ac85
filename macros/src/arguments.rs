//! The arguments of `#[locked(...)]`.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Expr, LitInt, LitStr, Result, Token};

use crate::duration;
use crate::key::Key;
use crate::literal::{fail, literal, without_groups};

const ALL: &str = "`client`, `prefix`, `key`, `keys`, `lease`, `fixed`, `max_renewals`, `wait`, \
                   `kind`, `permits`, `at_least` and `on_loss`";

/// Methods and fields of `leasehold::__LockedCall`.
const OPTIONAL: [&str; 7] = [
    "prefix", "client", "permits", "wait", "kind", "at_least", "on_loss",
];

/// Two that exclude each other, and why.
const EXCLUDED: [(&str, &str, &str); 6] = [
    ("keys", "key", "`keys` has all names"),
    ("max_renewals", "fixed", "a fixed lease is never renewed"),
    ("kind", "keys", "several names are `reentrant`"),
    ("kind", "permits", "a semaphore is of no other kind"),
    ("permits", "keys", "a semaphore has one name"),
    ("at_least", "permits", "a released permit is free"),
];

/// The kinds of locks. The library knows them by the same names.
const KINDS: [&str; 5] = ["reentrant", "fenced", "fair", "read", "write"];

/// The arguments, validated.
pub(crate) struct Arguments {
    /// An expression of the type `leasehold::__LockedCall`.
    pub(crate) call: TokenStream,
    /// All values, some of which can use the parameters.
    pub(crate) text: TokenStream,
}

/// An argument as it is written. `fixed` has no value.
struct Written {
    name: Ident,
    value: Option<Expr>,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            let message = format!("expected the name of an argument: {ALL}");
            syn::Error::new(error.span(), message)
        })?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(without_groups(input.parse()?)),
            None => None,
        };
        Ok(Self { name, value })
    }
}

/// The arguments by their names, not yet validated.
fn read(input: ParseStream<'_>) -> Result<HashMap<String, Written>> {
    let mut all = HashMap::new();
    for written in input.parse_terminated(Written::parse, Token![,])? {
        let name = written.name.to_string();
        let error = match (&*name, &written.value) {
            _ if !ALL.contains(&format!("`{name}`")) => {
                format!("`#[locked]` has no argument `{name}`; it has {ALL}")
            }
            _ if all.contains_key(&name) => {
                format!("`{name}` is given twice; each of {ALL} can be given only once")
            }
            ("fixed", Some(_)) => "`fixed` takes no value; write `fixed`, or leave it out".into(),
            ("fixed", None) | (_, Some(_)) => {
                all.insert(name, written);
                continue;
            }
            (_, None) => format!("`{name}` needs a value; write `{name} = ...`"),
        };
        return fail(written.name, error);
    }
    for (name, other, reason) in EXCLUDED {
        if let (Some(written), true) = (all.get(name), all.contains_key(other)) {
            let error = format!("leave out `{name}` or `{other}`: {reason}");
            return fail(&written.name, error);
        }
    }
    Ok(all)
}

impl Arguments {
    /// `parameters` are those of the function.
    pub(crate) fn parse(input: ParseStream<'_>, parameters: &[Ident]) -> Result<Self> {
        let whole = input.span();
        let mut written = read(input)?;
        let fixed = written.remove("fixed").map(|fixed| fixed.name);
        let mut take = |name| written.remove(name).and_then(|written| written.value);
        let keys = match (take("key"), take("keys")) {
            (Some(key), _) => vec![Key::parse(key, parameters)?],
            (None, Some(keys)) => Key::parse_all(keys, parameters)?,
            (None, None) => {
                let rule = "`#[locked]` needs the key of the lock; write `key = \"order:{id}\"`";
                return Err(syn::Error::new(whole, rule));
            }
        };
        let mut text = quote!(#(#keys)*);
        let keys = keys.iter().map(reference);
        let lease = lease(take("lease"), fixed, take("max_renewals"))?;
        let mut call = quote!(::leasehold::__LockedCall::new(&[#(#keys),*], #lease));
        let mut fields = TokenStream::new();
        for name in OPTIONAL {
            let Some(value) = take(name) else { continue };
            value.to_tokens(&mut text);
            let field = Ident::new(name, Span::mixed_site());
            let set = match name {
                "permits" => quote!(::core::option::Option::Some(#value)),
                "wait" => duration::tokens(duration::wait(&value)?),
                "at_least" => duration::tokens(duration::at_least(&value)?),
                "kind" => kind(value)?.into_token_stream(),
                "on_loss" => on_loss(value)?.into_token_stream(),
                _ => {
                    let value = reference(&value);
                    call.extend(quote!(.#field(#value)));
                    continue;
                }
            };
            fields.extend(quote!(#field: #set,));
        }
        let call = quote!(::leasehold::__LockedCall { #fields ..#call });
        Ok(Self { call, text })
    }
}

/// A reference to the user's expression, with its span, so that type errors point to it.
fn reference(value: &(impl ToTokens + Spanned)) -> TokenStream {
    quote_spanned!(Span::mixed_site().located_at(value.span())=> &(#value))
}

fn lease(
    duration: Option<Expr>,
    fixed: Option<Ident>,
    max_renewals: Option<Expr>,
) -> Result<TokenStream> {
    let renewals = match max_renewals.as_ref().map(number).transpose()? {
        Some(count) => quote!(renewed_at_most(#count)),
        None => quote!(RENEWED),
    };
    let duration = duration.map(|value| duration::lease(&value, fixed.is_some()));
    let duration = duration.transpose()?.map(duration::tokens);
    match (fixed, duration) {
        (Some(_), Some(duration)) => Ok(quote!(::leasehold::Lease::fixed(#duration))),
        (Some(fixed), None) => fail(fixed, "write its duration, as in `lease = \"30s\", fixed`"),
        (None, Some(duration)) => Ok(quote!(::leasehold::Lease::#renewals.lasting(#duration))),
        (None, None) => Ok(quote!(::leasehold::Lease::#renewals)),
    }
}

fn number(count: &Expr) -> Result<u32> {
    let number = syn::parse2::<LitInt>(count.to_token_stream());
    number.and_then(|it| it.base10_parse()).or_else(|_| {
        let rule = "is a number from 0 to 4294967295; write `max_renewals = 3`";
        fail(count, format!("`max_renewals` {rule}"))
    })
}

fn kind(value: Expr) -> Result<String> {
    const WRITE: &str = "write `kind = reentrant`, which is the default, `kind = fenced`, \
                         `kind = fair`, `kind = read` or `kind = write`";
    let Ok(name) = syn::parse2::<Ident>(value.to_token_stream()) else {
        return fail(value, format!("`kind` is an identifier; {WRITE}"));
    };
    match name.to_string() {
        name if KINDS.contains(&&*name) => Ok(name),
        name if name == "semaphore" => fail(value, "for a permit write `permits = 4`"),
        name if name == "multi" => fail(value, "for several names write `keys = [\"a\", \"b\"]`"),
        _ => fail(value, format!("unknown kind of lock; {WRITE}")),
    }
}

fn on_loss(value: Expr) -> Result<LitStr> {
    match literal(&value) {
        Some(text) if ["error", "ignore"].contains(&&*text.value()) => Ok(text),
        _ => fail(
            value,
            "`on_loss` is `\"error\"`, the default, or `\"ignore\"`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use proc_macro2::{Delimiter, Group};
    use syn::parse::Parser;

    /// Of a function with the parameters `id` and `r#type`.
    fn parse(arguments: &str) -> Result<Arguments> {
        parse_tokens(arguments.parse()?)
    }

    fn parse_tokens(arguments: TokenStream) -> Result<Arguments> {
        let parameters = [syn::parse_quote!(id), syn::parse_quote!(r#type)];
        let parser = |input: ParseStream<'_>| Arguments::parse(input, &parameters);
        parser.parse2(arguments)
    }

    fn assert_same(found: &TokenStream, expected: TokenStream) {
        assert_eq!(found.to_string(), expected.to_string());
    }

    #[test]
    fn the_defaults_apply_if_only_the_key_is_given() {
        let expected = quote!(::leasehold::__LockedCall {
            ..::leasehold::__LockedCall::new(
                &[&(::core::format_args!("order"))],
                ::leasehold::Lease::RENEWED
            )
        });
        assert_same(&parse(r#"key = "order""#).unwrap().call, expected);
    }

    /// `macro_rules!` adds invisible groups around its arguments, sometimes nested ones.
    #[test]
    fn parentheses_and_groups_of_macros_are_ignored() {
        let hidden = |tokens| Group::new(Delimiter::None, tokens);
        let key = hidden(quote!("order:{id}"));
        let nested = hidden(quote!((#key)));
        for key in [quote!(("order:{id}")), quote!(#key), quote!(#nested)] {
            let (lease, renewals) = (hidden(quote!("30s")), hidden(quote!(3)));
            let (wait, on_loss) = (hidden(quote!("forever")), hidden(quote!("ignore")));
            let kind = hidden(quote!(fenced));
            let found = parse_tokens(quote! {
                key = #key, lease = #lease, max_renewals = #renewals, wait = #wait,
                on_loss = #on_loss, kind = #kind
            })
            .unwrap();
            let lease = duration::tokens(Duration::from_secs(30));
            let lease = quote!(::leasehold::Lease::renewed_at_most(3u32).lasting(#lease));
            let wait = duration::tokens(Duration::MAX);
            let key = quote!(&(::core::format_args!("order:{id}")));
            let call = quote!(::leasehold::__LockedCall::new(&[#key], #lease));
            let call = quote!(::leasehold::__LockedCall {
                wait: #wait, kind: "fenced", on_loss: "ignore", ..#call
            });
            assert_same(&found.call, call);
        }
    }

    #[test]
    fn a_parameter_in_the_form_of_another_language_is_refused() {
        for (key, expected) in [
            ("a:#id", "`{id}`, without the `#`"),
            ("#id.", "`{id}`, without the `#`"),
            ("a:#{id}:b", "`{id}`, without the `#`"),
            ("a:${id:>8}", "`{id}`, without the `$`"),
            ("a:$id:b", "`{id}`, without the `$`"),
            ("#7:#id.number", "`{id.number}`, without the `#`"),
            ("#type", "`{type}`, without the `#`"),
        ] {
            for arguments in [format!("key = {key:?}"), format!("keys = [\"b\", {key:?}]")] {
                let Err(error) = parse(&arguments) else {
                    panic!("{arguments} is accepted");
                };
                let error = error.to_string();
                assert!(error.ends_with(expected), "{arguments}: {error}");
            }
        }
        let others = [
            "#", "a#b", "#ids", "#other", "#{other}", "{id}#", "#{{id}}", "$", "#:{id}",
        ];
        for key in others.into_iter().chain(["{r#type}", "{id.f(\"#id\")}"]) {
            assert!(parse(&format!("key = {key:?}")).is_ok(), "{key}");
        }
        assert!(parse("key = format_args!(\"#{id}\")").is_ok());
    }

    #[test]
    fn an_error_says_what_to_write() {
        for (arguments, text) in [
            ("", "key ="),
            (r#"lease = "30s""#, "key ="),
            ("key = 5", "key = \""),
            ("key", "key = ..."),
            (r#"key = "a", key = "b""#, "twice"),
            (r#"key = "a", fixed, fixed"#, "twice"),
            (r#"key = "a", ttl = "3s""#, "`on_loss`"),
            (r#""order""#, "`key`"),
            (r#"key = "a", lease = 30"#, "\"30s\""),
            (r#"key = "a", lease = "30""#, "\"30s\""),
            (r#"key = "a", fixed"#, "lease = \"30s\", fixed"),
            (r#"key = "a", fixed = true"#, "write `fixed`"),
            (
                r#"key = "a", lease = "3s", fixed, max_renewals = 3"#,
                "leave out",
            ),
            (r#"key = "a", max_renewals = -1"#, "max_renewals = 3"),
            (
                r#"key = "a", max_renewals = 4294967296"#,
                "max_renewals = 3",
            ),
            (r#"key = "a", max_renewals = N"#, "max_renewals = 3"),
            (r#"key = "a", max_renewals = "3""#, "max_renewals = 3"),
            (r#"key = "a", wait = 10"#, "forever"),
            (r#"key = "a", wait = "always""#, "forever"),
            (r#"key = "a", kind = semaphore"#, "permits = 4"),
            (r#"key = "a", kind = multi"#, "keys = [\"a\", \"b\"]"),
            ("keys = []", "keys = ["),
            (r#"keys = "a""#, "keys = ["),
            (r#"keys = ["a", 5]"#, "key = \""),
            (r#"key = "a", keys = ["b"]"#, "leave out `keys` or `key`"),
            (
                r#"keys = ["a", "b"], kind = fair"#,
                "leave out `kind` or `keys`",
            ),
            (
                r#"keys = ["a", "b"], permits = 4"#,
                "leave out `permits` or `keys`",
            ),
            (
                r#"key = "a", permits = 4, kind = fair"#,
                "leave out `kind` or `permits`",
            ),
            (
                r#"key = "a", permits = 4, at_least = "1s""#,
                "leave out `at_least` or `permits`",
            ),
            (r#"key = "a", at_least = "0s""#, "at_least = \"30s\""),
            (r#"key = "a", at_least = 60"#, "at_least = \"30s\""),
            (r#"key = "a", kind = spin"#, "kind = fenced"),
            (r#"key = "a", kind = "fenced""#, "kind = fenced"),
            (r#"key = "a", on_loss = "panic""#, "\"ignore\""),
            (r#"key = "a", on_loss = ignore"#, "\"ignore\""),
            (r#"key = "a" lease = "3s""#, "`,`"),
        ] {
            let Err(error) = parse(arguments) else {
                panic!("{arguments} is accepted");
            };
            let error = error.to_string();
            assert!(error.contains(text), "{arguments}: {error}");
        }
    }
}
