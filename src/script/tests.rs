use super::*;

/// The number that a constant of the scripts has.
pub(crate) fn constant(name: &str) -> u64 {
    let begins = format!("local {name} = ");
    let number = |(_, source): (_, String)| {
        let mut lines = source.lines();
        lines.find_map(|line| line.strip_prefix(&begins)?.parse().ok())
    };
    named_sources().into_iter().find_map(number).unwrap()
}

/// The same bytes as the crate `redis` makes.
#[test]
fn a_call_is_packed_as_a_command() {
    let call = Call::new(&RENEW)
        .key("ключ")
        .arg("")
        .arg([0xff_u8; 1000])
        .releasing();
    let call = call.clone().join(&call);
    let source = &*source::joined(include_str!("../../lua/renew.lua"));
    let sha = sha1_smol::Sha1::from(source).digest().to_string();
    let expected = |command: &str, script: &str| {
        let mut expected = redis::cmd(command);
        expected.arg(script).arg(2).arg("ключ").arg("ключ");
        for _ in 0..2 {
            expected.arg("").arg(&[0xff_u8; 1000][..]);
        }
        expected.arg("spublish").get_packed_command()
    };
    let mut packed = Vec::new();
    call.pack(false, Publish::ToShard, &mut packed);
    assert!(packed == expected("EVALSHA", &sha));
    packed.clear();
    call.pack(true, Publish::ToShard, &mut packed);
    assert!(packed == expected("EVAL", source));
}

/// Redis reports an unknown function only when a script calls it.
#[test]
fn a_script_requires_the_shared_functions_that_it_calls() {
    let texts = source::SHARED.iter().map(|(_, text)| text);
    let functions: Vec<&str> = texts
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("local function ")?.split('(').next())
        .collect();
    for (script, source) in named_sources() {
        let is_left = source.lines().any(|line| line.starts_with("-- require "));
        assert!(
            !is_left,
            "{script}: a line that requires a file is malformed"
        );
        for (line, code) in source.lines().enumerate() {
            let code = code.split("--").next().unwrap_or_default();
            let before_call = code.split('(').map(|words| {
                let is_in_name = |byte: char| byte.is_ascii_alphanumeric() || "_.".contains(byte);
                words.rsplit(|byte| !is_in_name(byte)).next()
            });
            for called in before_call
                .flatten()
                .filter(|name| functions.contains(name))
            {
                let mut until_here = source.lines().take(line + 1);
                assert!(
                    until_here.any(|line| line.contains(&format!("function {called}("))),
                    "{script} does not require the file of {called}"
                );
            }
        }
    }
}

/// The line must be the first one.
#[test]
fn scripts_with_undeclared_keys_say_so_to_dragonfly() {
    let mut marked = 0;
    for (script, source) in named_sources() {
        let makes_keys = ["line_of(", "timeout_key(", "tagged("];
        let makes_keys = makes_keys.iter().any(|function| source.contains(function));
        let is_marked = source.starts_with("--!df flags=allow-undeclared-keys\n--");
        assert_eq!(is_marked, makes_keys, "{script}");
        marked += usize::from(is_marked);
    }
    assert!(marked > 10, "{marked}");
}
