//! The `key` argument: a format string with parameters of the function, or any expression.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::{Expr, LitStr, Result};

use crate::literal::{fail, literal, without_groups};

/// The value of `key`.
pub(crate) enum Key {
    /// A string for `format_args!`. Each placeholder is a variable, or an index into `values`.
    Format { text: LitStr, values: Vec<Expr> },
    /// Any other expression that implements `Display`.
    Value(Expr),
}

impl Key {
    /// The keys of an array.
    pub(crate) fn parse_all(value: Expr) -> Result<Vec<Self>> {
        match value {
            Expr::Array(keys) if !keys.elems.is_empty() => {
                let keys = keys.elems.into_iter().map(without_groups);
                keys.map(Self::parse).collect()
            }
            other => fail(
                other,
                "`keys` is a list; write `keys = [\"from:{from}\", \"to:{to}\"]`",
            ),
        }
    }

    pub(crate) fn parse(value: Expr) -> Result<Self> {
        match (literal(&value), value) {
            (Some(text), _) => Self::format(&text),
            (None, Expr::Lit(other)) => fail(
                other,
                "`key` is a string or an expression that implements `Display`; \
                 write `key = \"order:{id}\"`",
            ),
            (None, value) => Ok(Self::Value(value)),
        }
    }

    fn format(literal: &LitStr) -> Result<Self> {
        let source = literal.value();
        if source.is_empty() {
            return Err(syn::Error::new(
                literal.span(),
                "the name of a lock must have at least one byte; write `key = \"order:{id}\"`",
            ));
        }
        let error = |message: &str| syn::Error::new(literal.span(), message);
        let (mut text, mut values) = (String::new(), Vec::new());
        let mut rest = source.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            text.push_str(before);
            if from.starts_with("{{") || from.starts_with("}}") {
                text.push_str(&from[..2]);
                rest = &from[2..];
                continue;
            }
            let inner = from.strip_prefix('{').ok_or_else(|| {
                error("this `}` has no opening `{`; for a literal brace write `}}`")
            })?;
            let (value, format, after) = placeholder(inner, literal)?;
            let name = match value {
                Value::Variable(name) => name,
                Value::Expression(value) => {
                    values.push(value);
                    (values.len() - 1).to_string()
                }
            };
            text.push_str(&format!("{{{name}{format}}}"));
            rest = after;
        }
        text.push_str(rest);
        Ok(Self::Format {
            text: LitStr::new(&text, literal.span()),
            values,
        })
    }
}

/// An expression that implements `Display`.
impl ToTokens for Key {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            // The generated tokens have the span of the string, so errors point to it.
            Self::Format { text, values } => {
                let site = Span::mixed_site().located_at(text.span());
                quote_spanned!(site=> ::core::format_args!(#text #(, #values)*))
            }
            Self::Value(value) => value.to_token_stream(),
        });
    }
}

/// The value of a placeholder of the format string.
enum Value {
    /// A variable, which `format_args!` captures.
    Variable(String),
    Expression(Expr),
}

/// Parses a placeholder up to the first `}` before which there is a value. A value may contain
/// braces and colons: in brackets, in strings and in paths. Returns it, the format specification
/// with its colon, which may be empty, and the text after the brace.
fn placeholder<'a>(inner: &'a str, literal: &LitStr) -> Result<(Value, &'a str, &'a str)> {
    let mut error = None;
    for (end, _) in inner.match_indices('}') {
        let mut failed = None;
        // The format begins at the last colon that is not of a path, if there is one.
        let colons = inner[..end].rmatch_indices(':').map(|(at, _)| at);
        let colons = colons.filter(|&at| !inner[at..].starts_with("::"));
        for at in [end].into_iter().chain(colons) {
            match Value::parse(&inner[..at], literal) {
                Ok(value) => return Ok((value, &inner[at..end], &inner[end + 1..])),
                Err(error) => failed = Some(error),
            }
        }
        error = error.or(failed);
    }
    let unclosed = "this `{` has no closing `}`; for a literal brace write `{{`";
    Err(error.unwrap_or_else(|| syn::Error::new(literal.span(), unclosed)))
}

impl Value {
    fn parse(text: &str, literal: &LitStr) -> Result<Self> {
        let error = |message: String| Err(syn::Error::new(literal.span(), message));
        let value = text.trim();
        if value.is_empty() {
            return error(
                "`{}` is empty; write a parameter between the braces, as in `{user_id}`".into(),
            );
        }
        // With the literal's span, so that errors of the compiler point to it.
        let text = LitStr::new(value, literal.span());
        // `format!` accepts keywords but no raw identifiers: `type` is the parameter `r#type`.
        if let Ok(name) = text.parse_with(Ident::parse_any)
            && name != "self"
            && name != "_"
        {
            return Ok(Self::Variable(name.unraw().to_string()));
        }
        match text.parse::<Expr>() {
            Ok(Expr::Lit(_)) => error(format!(
                "`{{{value}}}` is not a parameter, and there are no arguments after the string; \
                 write a parameter between the braces, as in `{{user_id}}`"
            )),
            Ok(expression) => Ok(Self::Expression(expression)),
            Err(cause) => error(format!(
                "`{{{value}}}` is not an expression ({cause}); \
                 write a parameter, a field or a call between the braces, as in `{{order.id}}`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn key(text: &str) -> Result<(String, Vec<String>)> {
        let literal = LitStr::new(text, Span::call_site());
        match Key::format(&literal)? {
            Key::Format { text, values } => {
                let values = values.iter().map(|value| quote!(#value).to_string());
                Ok((text.value(), values.collect()))
            }
            Key::Value(_) => panic!("expected a format string"),
        }
    }

    #[test]
    fn variables_stay_and_expressions_become_arguments() {
        for (text, format, values) in [
            ("plain", "plain", &[] as &[&str]),
            ("Business1:{user_id}", "Business1:{user_id}", &[]),
            ("{ user_id }", "{user_id}", &[]),
            ("{r#type}", "{type}", &[]),
            ("{type:?}", "{type:?}", &[]),
            ("{r#type.id}", "{0}", &["r#type . id"]),
            ("{order.id}", "{0}", &["order . id"]),
            (
                "{self.shop}/{id}/{f(1)}",
                "{0}/{id}/{1}",
                &["self . shop", "f (1)"],
            ),
            ("{self}", "{0}", &["self"]),
            ("{id:>8}", "{id:>8}", &[]),
            ("{order.id:>width$}", "{0:>width$}", &["order . id"]),
            ("{a::B}", "{0}", &["a :: B"]),
            ("{a::B:?}", "{0:?}", &["a :: B"]),
            ("{f(a::b, c[1])}", "{0}", &["f (a :: b , c [1])"]),
            (r#"{m["a}:b"]}"#, "{0}", &[r#"m ["a}:b"]"#]),
            (r#"{A::f("a:}b")}"#, "{0}", &[r#"A :: f ("a:}b")"#]),
            (r#"{m["a\"}"]:?}"#, "{0:?}", &[r#"m ["a\"}"]"#]),
            ("{{literally}}", "{{literally}}", &[]),
            ("{{{id}}}", "{{{id}}}", &[]),
            ("größe:{größe}", "größe:{größe}", &[]),
        ] {
            let (found, arguments) = key(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found, format, "{text}");
            assert_eq!(arguments, values, "{text}");
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        for (text, expected) in [
            ("", "at least one byte"),
            ("{}", "{user_id}"),
            ("{:>8}", "{user_id}"),
            ("{0}", "no arguments"),
            ("{id", "{{"),
            ("id}", "}}"),
            ("{order.}", "not an expression"),
            ("{a b}", "not an expression"),
            ("{f(}", "not an expression"),
        ] {
            let error = key(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
