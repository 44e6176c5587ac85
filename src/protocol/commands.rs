//! The commands of a query: their limits, and which of their words are keys.

use redis::{Arg, Pipeline, Value};

use super::decoded;
use crate::error::{Error, Result};

/// The most commands of a query.
const MOST: usize = 256;

/// The largest query, in bytes.
const LARGEST: usize = 8 << 20;

/// The most words of a command. Lua passes no more than about 8,000.
const MOST_WORDS: usize = 7_000;

/// The commands that scripts may not call or that wait, those that call scripts, and those that
/// change the connection, which other calls use, too.
const REFUSED: &str = "
    ACL ASKING AUTH BGREWRITEAOF BGSAVE BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX
    BZPOPMIN CLIENT CONFIG DEBUG DISCARD EVAL EVALSHA EVALSHA_RO EVAL_RO EXEC FAILOVER FCALL
    FCALL_RO FUNCTION HELLO LATENCY MIGRATE MODULE MONITOR MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT
    READONLY READWRITE REPLCONF REPLICAOF RESET ROLE SAVE SCRIPT SELECT SHUTDOWN SLAVEOF SSUBSCRIBE
    SUBSCRIBE SUNSUBSCRIBE SWAPDB SYNC UNSUBSCRIBE UNWATCH WAIT WAITAOF WATCH";

/// The words of a command.
pub(crate) type Command<'p> = Vec<&'p [u8]>;

/// The name of a command, in upper case. A name of Redis is short.
pub(crate) fn name(command: &[&[u8]]) -> String {
    let name = command.first().copied().unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(64)]).to_ascii_uppercase()
}

/// True if a query cannot execute the command. XREAD and XREADGROUP wait if an option says so.
fn is_refused(name: &str, command: &[&[u8]]) -> bool {
    let mut refused = REFUSED.split_ascii_whitespace();
    let may_wait = matches!(name, "XREAD" | "XREADGROUP");
    let is_option = |word: &&&[u8]| !word.eq_ignore_ascii_case(b"STREAMS");
    let mut options = command.iter().take_while(is_option);
    name.is_empty()
        || refused.any(|refused| refused == name)
        || may_wait && options.any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
}

/// The commands of a pipeline. Fails if a query cannot execute them.
pub(crate) fn commands(pipeline: &Pipeline) -> Result<Vec<Command<'_>>> {
    if pipeline.len() > MOST {
        let rule = "a query has at most 256 commands";
        return Err(Error::argument("commands", pipeline.len(), rule));
    }
    let mut commands = Vec::with_capacity(pipeline.len());
    for command in pipeline.cmd_iter() {
        let words = command.args_iter().map_while(|word| match word {
            Arg::Simple(word) => Some(word),
            _ => None,
        });
        let words: Command<'_> = words.collect();
        let name = name(&words);
        let rule = if words.len() < command.args_iter().len() {
            "a query cannot continue it by its cursor; give the cursor by `arg`"
        } else if words.len() > MOST_WORDS {
            "a command of a query has less than 7,000 arguments"
        } else if is_refused(&name, &words) {
            "a query cannot execute it, because scripts may not call it, it waits, or it changes \
             the connection; use a connection of your own"
        } else {
            commands.push(words);
            continue;
        };
        return Err(Error::argument("command", name, rule));
    }
    match commands.iter().flatten().map(|word| word.len()).sum() {
        0..=LARGEST => Ok(commands),
        bytes => {
            let rule = "a query has at most 8 MB";
            Err(Error::argument("commands", format!("{bytes} bytes"), rule))
        }
    }
}

/// Which words of a command are keys: every `step`th from the `first` to the `last`, which counts
/// from the end if it is negative. Without keys, `first` is zero. `None`: that depends on the
/// words.
pub(crate) type KeyPositions = Option<[i64; 3]>;

/// The positions in a reply to COMMAND INFO. A command that the server does not have has no keys.
pub(crate) fn key_positions(reply: &[Value]) -> KeyPositions {
    let Some(Value::Array(row)) = reply.first() else {
        return Some([0; 3]);
    };
    let flags = row.get(2).and_then(|flags| decoded(flags).ok());
    let flags: Vec<String> = flags.unwrap_or_default();
    let varies = flags.iter().any(|flag| flag == "movablekeys");
    // Since Redis 7.
    let has_subcommands = matches!(row.get(9), Some(Value::Array(rows)) if !rows.is_empty());
    let number = |at: usize| row.get(at).and_then(|number| decoded(number).ok());
    (!varies && !has_subcommands).then(|| [3, 4, 5].map(|at| number(at).unwrap_or(0)))
}

/// The words of a command at these positions.
pub(crate) fn keys_at<'p>(
    command: &[&'p [u8]],
    [first, last, step]: [i64; 3],
) -> impl Iterator<Item = &'p [u8]> {
    let at = |at: i64| usize::try_from(at).unwrap_or_default();
    let end = match last {
        ..0 => (command.len() + 1).saturating_sub(at(-last)),
        _ => at(last) + 1,
    };
    let end = if first > 0 { end } else { 0 };
    command
        .iter()
        .copied()
        .take(end)
        .skip(at(first))
        .step_by(at(step).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &'static str) -> Vec<&'static [u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    /// Why a query with this command is refused.
    fn refusal(line: &'static str) -> Option<String> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("GET")
            .arg("key")
            .cmd(line.split(' ').next().unwrap());
        pipeline.arg(&words(line)[1..]);
        commands(&pipeline).err().map(|error| error.to_string())
    }

    #[test]
    fn what_a_query_cannot_execute_is_refused_by_its_name() {
        for line in [
            "select 1",
            "EvalSha a 0",
            "BLPOP a 0",
            "subscribe a",
            "multi",
            "wait 1 0",
        ] {
            let name = line.split(' ').next().unwrap().to_uppercase();
            let text = refusal(line).expect(line);
            assert!(text.contains(&format!("command is {name}:")), "{text}");
        }
        assert!(refusal("XREAD COUNT 1 Block 0 STREAMS a 0").is_some());
        for line in [
            "XREAD STREAMS block 0",
            "SET block STREAMS",
            "lpop a",
            "publish a b",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
        let mut scan = redis::cmd("SCAN");
        scan.cursor_arg(7);
        assert!(commands(redis::pipe().add_command(scan)).is_err());
    }

    #[test]
    fn keys_are_where_the_server_says() {
        let row = |flag: &str, positions: [i64; 3], subcommands: Vec<Value>| {
            let flags = Value::Array(vec![Value::SimpleString(flag.into())]);
            let end = [vec![], vec![], vec![], subcommands].map(Value::Array);
            let begin = vec![Value::SimpleString("name".into()), Value::Int(-2), flags];
            Value::Array([begin, positions.map(Value::Int).to_vec(), end.to_vec()].concat())
        };
        assert_eq!(
            key_positions(&[row("write", [1, -1, 2], vec![])]),
            Some([1, -1, 2])
        );
        assert_eq!(
            key_positions(&[row("movablekeys", [1, 1, 1], vec![])]),
            None
        );
        assert_eq!(key_positions(&[row("", [0; 3], vec![Value::Nil])]), None);
        assert_eq!(key_positions(&[Value::Nil]), Some([0; 3]));
        for (line, positions, keys) in [
            ("mset a 1 b 2", [1, -1, 2], &["a", "b"][..]),
            ("mset a 1 b", [1, -1, 2], &["a", "b"]),
            ("blpop a b 0", [1, -2, 1], &["a", "b"]),
            ("set a b", [1, 1, 1], &["a"]),
            ("get", [1, 1, 1], &[]),
            ("get", [1, -9, 1], &[]),
            ("ping a", [0, 0, 0], &[]),
        ] {
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            assert_eq!(
                keys_at(&words(line), positions).collect::<Vec<_>>(),
                keys,
                "{line}"
            );
        }
    }
}
