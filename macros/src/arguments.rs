//! The arguments of `#[locked(...)]`.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprLit, Lit, Result, Token};

use crate::duration;
use crate::key::Key;

const ALL: &str =
    "`client`, `prefix`, `key`, `lease`, `fixed`, `max_renewals`, `wait`, `kind` and `on_loss`";

const KINDS: &str = "`kind = reentrant`, which is the default, `kind = fenced`, `kind = fair`, \
                     `kind = read` or `kind = write`";

/// The arguments, validated.
pub(crate) struct Arguments {
    pub(crate) client: Option<Expr>,
    pub(crate) prefix: Option<Expr>,
    pub(crate) key: Key,
    pub(crate) lease: Lease,
    /// `None`: without a limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) kind: Kind,
    pub(crate) ignores_loss: bool,
}

/// Corresponds to `leasehold::Lease`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lease {
    /// `None`: the client's.
    pub(crate) duration: Option<Duration>,
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
    Fair,
    Read,
    Write,
}

/// The arguments as raw, not yet validated.
#[derive(Default)]
struct RawArguments {
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

impl Parse for RawArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut raw = Self::default();
        while !input.is_empty() {
            let name = input.call(Ident::parse_any).map_err(|error| {
                syn::Error::new(
                    error.span(),
                    format!("expected the name of an argument: {ALL}"),
                )
            })?;
            raw.read(&name, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(raw)
    }
}

impl RawArguments {
    fn read(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        let text = name.to_string();
        let argument = match text.as_str() {
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
        check_once(name, argument.is_some())?;
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{text}` needs a value; write `{text} = ...`"),
            ));
        }
        input.parse::<Token![=]>()?;
        *argument = Some(without_groups(input.parse()?));
        Ok(())
    }

    fn read_fixed(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        check_once(name, self.fixed.is_some())?;
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

/// Removes parentheses, and the invisible groups that `macro_rules!` adds, around a value.
fn without_groups(value: Expr) -> Expr {
    match value {
        Expr::Group(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        Expr::Paren(inner) if inner.attrs.is_empty() => without_groups(*inner.expr),
        value => value,
    }
}

fn check_once(name: &Ident, already: bool) -> Result<()> {
    if !already {
        return Ok(());
    }
    Err(syn::Error::new(
        name.span(),
        format!("`{name}` is given twice; each of {ALL} can be given only once"),
    ))
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let whole = input.span();
        let raw = RawArguments::parse(input)?;
        let key = raw.key.ok_or_else(|| {
            syn::Error::new(
                whole,
                "`#[locked]` needs the key of the lock; write `key = \"order:{id}\"`",
            )
        })?;
        let lease = lease(raw.lease, raw.fixed, raw.max_renewals)?;
        Ok(Self {
            client: raw.client,
            prefix: raw.prefix,
            key: Key::parse(key)?,
            lease,
            wait: raw.wait.map_or(Ok(Some(Duration::ZERO)), wait)?,
            kind: raw.kind.map_or(Ok(Kind::Reentrant), |k| kind(&k))?,
            ignores_loss: raw.on_loss.map_or(Ok(false), |l| ignores_loss(&l))?,
        })
    }
}

fn lease(duration: Option<Expr>, fixed: Option<Span>, max_renewals: Option<Expr>) -> Result<Lease> {
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
    let duration = match (duration, fixed) {
        (Some(value), fixed) => {
            let text = duration::text("lease", r#""30s""#, &value)?;
            Some(duration::lease(&text, fixed.is_some())?)
        }
        (None, Some(span)) => {
            return Err(syn::Error::new(
                span,
                "a `fixed` lease needs a duration; write `lease = \"30s\", fixed`",
            ));
        }
        (None, None) => None,
    };
    Ok(Lease { duration, renewals })
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
            format!("`kind` is an identifier; write {KINDS}"),
        ));
    };
    let name = path.path.get_ident().map(Ident::to_string);
    let message = match name.as_deref() {
        Some("reentrant") => return Ok(Kind::Reentrant),
        Some("fenced") => return Ok(Kind::Fenced),
        Some("fair") => return Ok(Kind::Fair),
        Some("read") => return Ok(Kind::Read),
        Some("write") => return Ok(Kind::Write),
        Some(name @ ("semaphore" | "multi" | "redlock")) => {
            format!("`{name}` is not supported")
        }
        _ => "unknown kind of lock".into(),
    };
    Err(syn::Error::new_spanned(
        value,
        format!("{message}; write {KINDS}"),
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
    fn the_defaults_apply_if_only_the_key_is_given() {
        let found = parse(r#"key = "order""#).unwrap();
        assert!(found.client.is_none() && found.prefix.is_none() && !found.ignores_loss);
        assert_eq!(found.wait, Some(Duration::ZERO));
        assert_eq!(found.kind, Kind::Reentrant);
        let unlimited = Lease {
            duration: None,
            renewals: Renewals::Unlimited,
        };
        assert_eq!(found.lease, unlimited);
    }

    #[test]
    fn arguments_are_accepted_in_any_order() {
        let found = parse(
            r#"on_loss = "ignore", kind = fenced, wait = "forever", max_renewals = 3, lease = "30s",
               key = "Business1:{user_id}", prefix = Business::Order, client = self.locks,"#,
        )
        .unwrap();
        assert!(found.client.is_some() && found.prefix.is_some() && found.ignores_loss);
        assert_eq!(found.wait, None);
        assert_eq!(found.kind, Kind::Fenced);
        let lease = |seconds, renewals| Lease {
            duration: Some(Duration::from_secs(seconds)),
            renewals,
        };
        assert_eq!(found.lease, lease(30, Renewals::AtMost(3)));
        let found = parse(r#"key = KEY, lease = "5s", fixed"#).unwrap();
        assert_eq!(found.lease, lease(5, Renewals::None));
        let found = parse(r#"key = KEY, on_loss = "error", kind = reentrant"#).unwrap();
        assert!(!found.ignores_loss && found.kind == Kind::Reentrant);
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
            assert_eq!(found.lease.duration, Some(Duration::from_secs(30)));
            assert_eq!(found.lease.renewals, Renewals::AtMost(3));
            assert!(found.wait.is_none() && found.ignores_loss && found.kind == Kind::Fenced);
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
