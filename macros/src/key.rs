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
    pub(crate) fn parse_all(value: Expr, parameters: &[Ident]) -> Result<Vec<Self>> {
        match value {
            Expr::Array(keys) if !keys.elems.is_empty() => {
                let keys = keys.elems.into_iter().map(without_groups);
                keys.map(|key| Self::parse(key, parameters)).collect()
            }
            other => fail(
                other,
                "`keys` is a list; write `keys = [\"from:{from}\", \"to:{to}\"]`",
            ),
        }
    }

    /// `parameters` are those of the function.
    pub(crate) fn parse(value: Expr, parameters: &[Ident]) -> Result<Self> {
        match (literal(&value), value) {
            (Some(text), _) => Self::format(&text, parameters),
            (None, Expr::Lit(other)) => fail(
                other,
                "`key` is a string or an expression that implements `Display`; \
                 write `key = \"order:{id}\"`",
            ),
            (None, value) => Ok(Self::Value(value)),
        }
    }

    fn format(literal: &LitStr, parameters: &[Ident]) -> Result<Self> {
        let source = literal.value();
        let error = |message| Err(syn::Error::new(literal.span(), message));
        if source.is_empty() {
            let rule = "the name of a lock must have at least one byte";
            return fail(literal, format!("{rule}; write `key = \"order:{{id}}\"`"));
        }
        let (mut text, mut values) = (String::new(), Vec::new());
        let mut rest = source.as_str();
        loop {
            let (before, from) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
            check_signs(before, rest, literal, parameters)?;
            text.push_str(before);
            if from.is_empty() {
                break;
            } else if from.starts_with("{{") || from.starts_with("}}") {
                text.push_str(&from[..2]);
                rest = &from[2..];
                continue;
            }
            let Some(inner) = from.strip_prefix('{') else {
                return error("this `}` has no opening `{`; for a literal brace write `}}`");
            };
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
        Ok(Self::Format {
            text: LitStr::new(&text, literal.span()),
            values,
        })
    }
}

/// Refuses the placeholders of other languages: `#id`, `#{id}`, `$id` and `${id}`, if there is a
/// parameter `id`. `rest` begins with `before`, the text before a placeholder.
fn check_signs(before: &str, rest: &str, literal: &LitStr, parameters: &[Ident]) -> Result<()> {
    for (at, sign) in before.match_indices(['#', '$']) {
        let rest = &rest[at + 1..];
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let ends = |it: char| !it.is_alphanumeric() && !"_.".contains(it);
        let path = rest.split(ends).next().unwrap_or_default();
        let is_of = |it: &Ident| path.split('.').next() == Some(&it.unraw().to_string());
        if parameters.iter().any(is_of) {
            let path = path.trim_end_matches('.');
            let error = format!("for the value of the parameter write `{{{path}}}`");
            return fail(literal, format!("{error}, without the `{sign}`"));
        }
    }
    Ok(())
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
        match Key::format(&literal, &[])? {
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
            ("{m[\"a}:b\"]}", "{0}", &["m [\"a}:b\"]"]),
            ("{A::f(\"a:}b\")}", "{0}", &["A :: f (\"a:}b\")"]),
            ("{m[\"a\\\"}\"]:?}", "{0:?}", &["m [\"a\\\"}\"]"]),
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
