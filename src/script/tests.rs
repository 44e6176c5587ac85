use super::*;

#[test]
fn all_scripts_agree_on_what_a_lock_is() {
    fn rule(script: &Script) -> Vec<&str> {
        let source = std::str::from_utf8(&script.by_source).unwrap();
        let (_, rest) = source.split_once("local function holder_of").unwrap();
        let (rule, _) = rest.split_once("\nend\n").unwrap();
        rule.lines().map(str::trim).collect()
    }
    let acquire = rule(&ACQUIRE);
    assert!(acquire.len() > 20);
    assert_eq!(acquire, rule(&FORCE_UNLOCK));
    assert_eq!(acquire, rule(&INSPECT));
}

/// The same bytes as the crate `redis` makes.
#[test]
fn a_call_is_packed_as_a_command() {
    let call = Call::new(&RELEASE)
        .key("ключ")
        .arg("")
        .arg([0xff_u8; 1000])
        .publishing();
    let call = call.clone().join(&call);
    let source = include_str!("../../lua/release.lua");
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
    call.pack_by_hash(Publish::ToShard, &mut packed);
    assert!(packed == expected("EVALSHA", &sha));
    packed.clear();
    call.pack_by_source(Publish::ToShard, &mut packed);
    assert!(packed == expected("EVAL", source));
}
