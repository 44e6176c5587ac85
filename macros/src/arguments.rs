//! What stands in the brackets of `#[locked(...)]`.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprLit, Lit, Result, Token};

use crate::duration;
use crate::key::Key;

const ALL: &str =
    "`client`, `prefix`, `key`, `lease`, `fixed`, `max_renewals`, `wait`, `kind` and `on_loss`";

/// The arguments, all of them good.
pub(crate) struct Arguments {
    pub(crate) client: Option<Expr>,
    pub(crate) prefix: Option<Expr>,
    pub(crate) key: Key,
    pub(crate) lease: Lease,
    /// `None`: for ever.
    pub(crate) wait: Option<Duration>,
    pub(crate) kind: Kind,
    pub(crate) ignores_loss: bool,
}

/// As `leasehold::Lease`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lease {
    /// `None`: the client's.
    pub(crate) length: Option<Duration>,
    pub(crate) renewals: Renewals,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Renewals {
    None,
    AtMost(u32),
    Unlimited,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Reentrant,
    Fenced,
}

/// As written.
#[derive(Default)]
struct Written {
    client: Option<Expr>,
    prefix: Option<Expr>,
    key: Option<Expr>,
    lease: Option<Expr>,
    fixed: Option<Span>,
    max_renewals: Option<Expr>,
    wait: Option<Expr>,
    kind: Option<Expr>,
    on_loss: Option<Expr>,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut written = Self::default();
        while !input.is_empty() {
            let name = input.call(Ident::parse_any).map_err(|error| {
                syn::Error::new(
                    error.span(),
                    format!("expected the name of an argument: {ALL}"),
                )
            })?;
            written.read(&name, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(written)
    }
}

impl Written {
    fn read(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        let text = name.to_string();
        let place = match text.as_str() {
            "client" => &mut self.client,
            "prefix" => &mut self.prefix,
            "key" => &mut self.key,
            "lease" => &mut self.lease,
            "max_renewals" => &mut self.max_renewals,
            "wait" => &mut self.wait,
            "kind" => &mut self.kind,
            "on_loss" => &mut self.on_loss,
            "fixed" => return self.read_fixed(name, input),
            _ => {
                return Err(syn::Error::new(
                    name.span(),
                    format!("`#[locked]` has no argument `{text}`; it has {ALL}"),
                ));
            }
        };
        once(name, place.is_some())?;
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{text}` has no value; write `{text} = ...`"),
            ));
        }
        input.parse::<Token![=]>()?;
        *place = Some(bare(input.parse()?));
        Ok(())
    }

    fn read_fixed(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        once(name, self.fixed.is_some())?;
        if input.peek(Token![=]) {
            return Err(syn::Error::new(
                name.span(),
                "`fixed` takes no value; write `fixed`, or leave it out",
            ));
        }
        self.fixed = Some(name.span());
        Ok(())
    }
}

/// Without the parentheses around it, or the invisible ones of what comes by way of `macro_rules!`: a string in
/// them is a string.
fn bare(value: Expr) -> Expr {
    match value {
        Expr::Group(inner) if inner.attrs.is_empty() => bare(*inner.expr),
        Expr::Paren(inner) if inner.attrs.is_empty() => bare(*inner.expr),
        value => value,
    }
}

fn once(name: &Ident, already: bool) -> Result<()> {
    if !already {
        return Ok(());
    }
    Err(syn::Error::new(
        name.span(),
        format!("`{name}` is given twice; each of {ALL} is given once at most"),
    ))
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let whole = input.span();
        let written = Written::parse(input)?;
        let key = written.key.ok_or_else(|| {
            syn::Error::new(
                whole,
                "`#[locked]` needs to know which lock; write `key = \"order:{id}\"`",
            )
        })?;
        let lease = lease(written.lease, written.fixed, written.max_renewals)?;
        Ok(Self {
            client: written.client,
            prefix: written.prefix,
            key: Key::parse(key)?,
            lease,
            wait: written.wait.map_or(Ok(Some(Duration::ZERO)), wait)?,
            kind: written.kind.map_or(Ok(Kind::Reentrant), |k| kind(&k))?,
            ignores_loss: written.on_loss.map_or(Ok(false), |l| ignores_loss(&l))?,
        })
    }
}

fn lease(length: Option<Expr>, fixed: Option<Span>, max_renewals: Option<Expr>) -> Result<Lease> {
    let renewals = match (fixed, &max_renewals) {
        (Some(_), Some(count)) => {
            return Err(syn::Error::new_spanned(
                count,
                "a `fixed` lease is never renewed; leave out `fixed` or `max_renewals`",
            ));
        }
        (Some(_), None) => Renewals::None,
        (None, Some(count)) => Renewals::AtMost(number(count)?),
        (None, None) => Renewals::Unlimited,
    };
    let length = match (length, fixed) {
        (Some(value), fixed) => {
            let text = duration::text("lease", r#""30s""#, &value)?;
            Some(duration::lease(&text, fixed.is_some())?)
        }
        (None, Some(span)) => {
            return Err(syn::Error::new(
                span,
                "a `fixed` lease has a length of its own; write `lease = \"30s\", fixed`",
            ));
        }
        (None, None) => None,
    };
    Ok(Lease { length, renewals })
}

fn number(count: &Expr) -> Result<u32> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Int(number),
        ..
    }) = count
        && let Ok(number) = number.base10_parse()
    {
        return Ok(number);
    }
    Err(syn::Error::new_spanned(
        count,
        "`max_renewals` is a number from 0 to 4294967295; write `max_renewals = 3`",
    ))
}

fn wait(value: Expr) -> Result<Option<Duration>> {
    duration::wait(&duration::text(
        "wait",
        r#""10s"` or `wait = "forever""#,
        &value,
    )?)
}

fn kind(value: &Expr) -> Result<Kind> {
    let Expr::Path(path) = value else {
        return Err(syn::Error::new_spanned(
            value,
            "`kind` is a word; write `kind = reentrant` or `kind = fenced`",
        ));
    };
    let name = path.path.get_ident().map(Ident::to_string);
    let why = match name.as_deref() {
        Some("reentrant") => return Ok(Kind::Reentrant),
        Some("fenced") => return Ok(Kind::Fenced),
        Some(name @ ("read" | "write" | "fair" | "semaphore")) => {
            format!("there are no `{name}` locks yet")
        }
        _ => "there is no such kind of lock".into(),
    };
    Err(syn::Error::new_spanned(
        value,
        format!("{why}; write `kind = reentrant`, which is the default, or `kind = fenced`"),
    ))
}

fn ignores_loss(value: &Expr) -> Result<bool> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = value
    {
        match text.value().as_str() {
            "error" => return Ok(false),
            "ignore" => return Ok(true),
            _ => {}
        }
    }
    Err(syn::Error::new_spanned(
        value,
        "`on_loss` is `\"error\"`, which is the default, or `\"ignore\"`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Delimiter, Group};
    use quote::quote;

    fn parse(arguments: &str) -> Result<Arguments> {
        syn::parse_str(arguments)
    }

    #[test]
    fn without_more_than_a_key_the_defaults_are_these() {
        let found = parse(r#"key = "order""#).unwrap();
        assert!(found.client.is_none() && found.prefix.is_none() && !found.ignores_loss);
        assert_eq!(found.wait, Some(Duration::ZERO));
        assert_eq!(found.kind, Kind::Reentrant);
        let unlimited = Lease {
            length: None,
            renewals: Renewals::Unlimited,
        };
        assert_eq!(found.lease, unlimited);
    }

    #[test]
    fn every_argument_is_understood_in_any_order() {
        let found = parse(
            r#"on_loss = "ignore", kind = fenced, wait = "forever", max_renewals = 3, lease = "30s",
               key = "Business1:{user_id}", prefix = Business::Order, client = self.locks,"#,
        )
        .unwrap();
        assert!(found.client.is_some() && found.prefix.is_some() && found.ignores_loss);
        assert_eq!(found.wait, None);
        assert_eq!(found.kind, Kind::Fenced);
        let lease = |length, renewals| Lease {
            length: Some(Duration::from_secs(length)),
            renewals,
        };
        assert_eq!(found.lease, lease(30, Renewals::AtMost(3)));
        let found = parse(r#"key = KEY, lease = "5s", fixed"#).unwrap();
        assert_eq!(found.lease, lease(5, Renewals::None));
        let found = parse(r#"key = KEY, on_loss = "error", kind = reentrant"#).unwrap();
        assert!(!found.ignores_loss && found.kind == Kind::Reentrant);
    }

    /// `macro_rules!` puts what it is given into groups that nobody sees, at times one in another.
    #[test]
    fn what_is_in_parentheses_or_comes_by_a_macro_is_what_it_would_be_without() {
        let hidden = |tokens| Group::new(Delimiter::None, tokens);
        let key = hidden(quote!("order:{id}"));
        let nested = hidden(quote!((#key)));
        for key in [quote!(("order:{id}")), quote!(#key), quote!(#nested)] {
            let (lease, renewals) = (hidden(quote!("30s")), hidden(quote!(3)));
            let (wait, on_loss) = (hidden(quote!("forever")), hidden(quote!("ignore")));
            let kind = hidden(quote!(fenced));
            let found: Arguments = syn::parse2(quote! {
                key = #key, lease = #lease, max_renewals = #renewals, wait = #wait, on_loss = #on_loss, kind = #kind
            })
            .unwrap();
            let Key::Format { text, .. } = found.key else {
                panic!("{key} is no format");
            };
            assert_eq!(text.value(), "order:{id}");
            assert_eq!(found.lease.length, Some(Duration::from_secs(30)));
            assert_eq!(found.lease.renewals, Renewals::AtMost(3));
            assert!(found.wait.is_none() && found.ignores_loss && found.kind == Kind::Fenced);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_write() {
        for (arguments, word) in [
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
            (r#"key = "a", wait = 10"#, "forever"),
            (r#"key = "a", wait = "always""#, "forever"),
            (r#"key = "a", kind = read"#, "no `read` locks yet"),
            (r#"key = "a", kind = spin"#, "kind = fenced"),
            (r#"key = "a", kind = "fenced""#, "kind = fenced"),
            (r#"key = "a", on_loss = "panic""#, "\"ignore\""),
            (r#"key = "a", on_loss = ignore"#, "\"ignore\""),
            (r#"key = "a" lease = "3s""#, "`,`"),
        ] {
            let Err(error) = parse(arguments) else {
                panic!("{arguments} is taken");
            };
            let error = error.to_string();
            assert!(error.contains(word), "{arguments}: {error}");
        }
    }
}
