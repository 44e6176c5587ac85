use super::*;

/// The same bytes as the crate `redis` makes.
#[test]
fn a_call_is_packed_as_a_command() {
    let call = Call::new(&RENEW)
        .key("ключ")
        .arg("")
        .arg([0xff_u8; 1000])
        .publishing();
    let call = call.clone().join(&call);
    let source = include_str!("../../lua/renew.lua");
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
