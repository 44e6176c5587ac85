//! The arguments of `#[locked(...)]`.

use std::collections::HashMap;
use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, LitInt, Result, Token};

use crate::duration;
use crate::key::Key;
use crate::literal::{fail, literal};

const ALL: &str =
    "`client`, `prefix`, `key`, `lease`, `fixed`, `max_renewals`, `wait`, `kind` and `on_loss`";

/// The kinds of locks. The library knows them by the same names.
const KINDS: [&str; 5] = ["reentrant", "fenced", "fair", "read", "write"];

/// The arguments, validated.
pub(crate) struct Arguments {
    pub(crate) client: Option<Expr>,
    pub(crate) prefix: Option<Expr>,
    pub(crate) key: Key,
    /// An expression of the type `leasehold::Lease`.
    pub(crate) lease: TokenStream,
    /// An expression of the type `Duration`.
    pub(crate) wait: TokenStream,
    pub(crate) kind: String,
    pub(crate) ignores_loss: bool,
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
        let has_value = input.parse::<Option<Token![=]>>()?.is_some();
        let value = has_value.then(|| input.parse().map(without_groups));
        Ok(Self {
            value: value.transpose()?,
            name,
        })
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
    Ok(all)
}

/// Removes parentheses, and the invisible groups that `macro_rules!` adds, around a value.
fn without_groups(value: Expr) -> Expr {
    match value {
        Expr::Group(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        Expr::Paren(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        value => value,
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let whole = input.span();
        let mut written = read(input)?;
        let fixed = written.remove("fixed").map(|fixed| fixed.name);
        let mut take = |name| written.remove(name).and_then(|written| written.value);
        let key = take("key").ok_or_else(|| {
            let message = "`#[locked]` needs the key of the lock; write `key = \"order:{id}\"`";
            syn::Error::new(whole, message)
        })?;
        let wait = take("wait").map_or(Ok(Duration::ZERO), |value| duration::wait(&value))?;
        Ok(Self {
            client: take("client"),
            prefix: take("prefix"),
            lease: lease(take("lease"), fixed, take("max_renewals"))?,
            key: Key::parse(key)?,
            wait: duration::tokens(wait),
            kind: take("kind").map_or(Ok(KINDS[0].into()), kind)?,
            ignores_loss: take("on_loss").map_or(Ok(false), ignores_loss)?,
        })
    }
}

fn lease(
    duration: Option<Expr>,
    fixed: Option<Ident>,
    max_renewals: Option<Expr>,
) -> Result<TokenStream> {
    if let (Some(_), Some(count)) = (&fixed, &max_renewals) {
        return fail(
            count,
            "a `fixed` lease is never renewed; leave out `fixed` or `max_renewals`",
        );
    }
    let renewals = match max_renewals.as_ref().map(number).transpose()? {
        Some(count) => quote!(renewed_at_most(#count)),
        None => quote!(RENEWED),
    };
    let duration = duration.map(|value| duration::lease(&value, fixed.is_some()));
    let duration = duration.transpose()?.map(duration::tokens);
    match (fixed, duration) {
        (Some(_), Some(duration)) => Ok(quote!(::leasehold::Lease::fixed(#duration))),
        (Some(fixed), None) => fail(
            fixed,
            "a `fixed` lease needs a duration; write `lease = \"30s\", fixed`",
        ),
        (None, Some(duration)) => Ok(quote!(::leasehold::Lease::#renewals.lasting(#duration))),
        (None, None) => Ok(quote!(::leasehold::Lease::#renewals)),
    }
}

fn number(count: &Expr) -> Result<u32> {
    let number = syn::parse2::<LitInt>(count.to_token_stream());
    number
        .and_then(|number| number.base10_parse())
        .or_else(|_| {
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
        name if ["semaphore", "multi", "redlock"].contains(&&*name) => {
            fail(value, format!("`{name}` is not supported; {WRITE}"))
        }
        _ => fail(value, format!("unknown kind of lock; {WRITE}")),
    }
}

fn ignores_loss(value: Expr) -> Result<bool> {
    match literal(&value).map(|text| text.value()).as_deref() {
        Some("error") => Ok(false),
        Some("ignore") => Ok(true),
        _ => {
            let rule = "is `\"error\"`, which is the default, or `\"ignore\"`";
            fail(value, format!("`on_loss` {rule}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Delimiter, Group};

    fn parse(arguments: &str) -> Result<Arguments> {
        syn::parse_str(arguments)
    }

    fn assert_same(found: &TokenStream, expected: TokenStream) {
        assert_eq!(found.to_string(), expected.to_string());
    }

    #[test]
    fn the_defaults_apply_if_only_the_key_is_given() {
        let found = parse(r#"key = "order""#).unwrap();
        assert!(found.client.is_none() && found.prefix.is_none() && !found.ignores_loss);
        assert_eq!(found.kind, "reentrant");
        assert_same(&found.wait, quote!(::core::time::Duration::new(0u64, 0u32)));
        assert_same(&found.lease, quote!(::leasehold::Lease::RENEWED));
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
            let found: Arguments = syn::parse2(quote! {
                key = #key, lease = #lease, max_renewals = #renewals, wait = #wait,
                on_loss = #on_loss, kind = #kind
            })
            .unwrap();
            let Key::Format { text, .. } = found.key else {
                panic!("{key} is not a format string");
            };
            assert_eq!(text.value(), "order:{id}");
            let lease = duration::tokens(Duration::from_secs(30));
            let lease = quote!(::leasehold::Lease::renewed_at_most(3u32).lasting(#lease));
            assert_same(&found.lease, lease);
            assert_same(&found.wait, duration::tokens(Duration::MAX));
            assert!(found.ignores_loss && found.kind == "fenced");
        }
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
            (
                r#"key = "a", kind = semaphore"#,
                "`semaphore` is not supported",
            ),
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
