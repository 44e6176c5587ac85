//! The commands of a query: their limits, and which of their words are keys.

use std::collections::HashMap;

use parking_lot::Mutex;
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
    ACL ASKING AUTH BGREWRITEAOF BGSAVE BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN
    CLIENT CONFIG DEBUG DISCARD EVAL EVALSHA EVALSHA_RO EVAL_RO EXEC FAILOVER FCALL FCALL_RO FUNCTION
    HELLO LATENCY MODULE MONITOR MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT READONLY READWRITE REPLCONF
    REPLICAOF RESET ROLE SAVE SCRIPT SELECT SHUTDOWN SLAVEOF SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE SWAPDB
    SYNC UNSUBSCRIBE UNWATCH WAIT WAITAOF WATCH";

/// The words of a command.
pub(crate) type Command<'p> = Vec<&'p [u8]>;

/// The name of a command, in upper case. A name of Redis is short.
fn name(command: &[&[u8]]) -> String {
    let name = command.first().copied().unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(64)]).to_ascii_uppercase()
}

/// True if a query cannot execute the command. XREAD and XREADGROUP wait if an option says so.
fn is_refused(name: &str, command: &[&[u8]]) -> bool {
    let mut options = command
        .iter()
        .take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
    let may_wait = matches!(name, "XREAD" | "XREADGROUP");
    name.is_empty()
        || REFUSED
            .split_ascii_whitespace()
            .any(|refused| refused == name)
        || may_wait && options.any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
}

/// The commands of a pipeline. Fails if a query cannot execute them.
pub(crate) fn commands(pipeline: &Pipeline) -> Result<Vec<Command<'_>>> {
    if pipeline.len() > MOST {
        let rule = "a query has at most 256 commands";
        return Err(Error::config("commands", pipeline.len(), rule));
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
        return Err(Error::config("command", name, rule));
    }
    match commands.iter().flatten().map(|word| word.len()).sum() {
        0..=LARGEST => Ok(commands),
        bytes => {
            let rule = "a query has at most 8 MB";
            Err(Error::config("commands", format!("{bytes} bytes"), rule))
        }
    }
}

/// Which words of commands are keys, as a server of a cluster has said it.
#[derive(Debug, Default)]
pub(crate) struct KeyPositions(Mutex<HashMap<String, Positions>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positions {
    /// Every `step`th word from the first to the last one, which counts from the end if it is
    /// negative. Without a key, the first one is zero.
    Fixed { first: i64, last: i64, step: i64 },
    /// They depend on the words.
    Varied,
}

impl KeyPositions {
    /// The names of the commands that no server was asked for.
    pub(crate) fn unknown(&self, commands: &[Command<'_>]) -> Vec<String> {
        let known = self.0.lock();
        let names = commands.iter().map(|command| name(command));
        let mut unknown: Vec<String> = names.filter(|name| !known.contains_key(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Keeps the reply to COMMAND INFO for these names. A command that the server does not have has
    /// no keys.
    pub(crate) fn learn(&self, names: Vec<String>, rows: &[Value]) {
        let mut known = self.0.lock();
        for (name, row) in names.into_iter().zip(rows) {
            let mut subcommands = Vec::new();
            let positions = positions(row, &mut subcommands);
            known.extend(subcommands);
            known.insert(name, positions);
        }
    }

    /// The keys of a command; `None` if a server has to be asked.
    pub(crate) fn keys(&self, command: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let known = self.0.lock();
        let container = name(command);
        let subcommand = format!("{container}|{}", name(command.get(1..).unwrap_or_default()));
        let positions = known.get(&subcommand).or_else(|| known.get(&container));
        match *positions? {
            Positions::Fixed { first, .. } if first <= 0 => Some(Vec::new()),
            Positions::Fixed { first, last, step } => {
                let length = i64::try_from(command.len()).unwrap_or(i64::MAX);
                let last = if last < 0 { length + last } else { last };
                let at = |at: i64| usize::try_from(at).unwrap_or_default();
                let keys = command.iter().take(at(last + 1)).skip(at(first));
                Some(
                    keys.step_by(at(step).max(1))
                        .map(|key| key.to_vec())
                        .collect(),
                )
            }
            Positions::Varied => None,
        }
    }
}

/// The positions in a row of the reply to COMMAND INFO. Adds those of its subcommands.
fn positions(row: &Value, subcommands: &mut Vec<(String, Positions)>) -> Positions {
    let Value::Array(row) = row else {
        return Positions::Fixed {
            first: 0,
            last: 0,
            step: 0,
        };
    };
    let number = |at: usize| {
        row.get(at)
            .and_then(|number| decoded(number).ok())
            .unwrap_or(0)
    };
    let flags: Vec<String> = row
        .get(2)
        .and_then(|flags| decoded(flags).ok())
        .unwrap_or_default();
    // Since Redis 7.
    if let Some(Value::Array(rows)) = row.get(9) {
        for row in rows {
            let name = match row {
                Value::Array(row) => row.first().and_then(|name| decoded::<String>(name).ok()),
                _ => None,
            };
            let positions = positions(row, &mut Vec::new());
            subcommands.extend(name.map(|name| (name.to_ascii_uppercase(), positions)));
        }
    }
    match flags.iter().any(|flag| flag == "movablekeys") {
        true => Positions::Varied,
        false => Positions::Fixed {
            first: number(3),
            last: number(4),
            step: number(5),
        },
    }
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
        let text = |text: &str| Value::BulkString(text.into());
        let row = |name: &str, flag: &str, [first, last, step]: [i64; 3], rows: Vec<Value>| {
            let flags = Value::Array(vec![Value::SimpleString(flag.into())]);
            let numbers = [first, last, step].map(Value::Int);
            let [none, also, more] = [(); 3].map(|()| Value::Array(vec![]));
            let begin = vec![text(name), Value::Int(-2), flags];
            let end = vec![none, also, more, Value::Array(rows)];
            Value::Array([begin, numbers.to_vec(), end].concat())
        };
        let of_object = vec![row("object|encoding", "readonly", [2, 2, 1], vec![])];
        let rows = [
            row("mset", "write", [1, -1, 2], vec![]),
            row("object", "", [0, 0, 0], of_object),
            row("zunion", "movablekeys", [0, 0, 0], vec![]),
            Value::Nil,
        ];
        let known = KeyPositions::default();
        let names = ["MSET", "OBJECT", "ZUNION", "NONE"].map(String::from);
        let asked: Vec<Command<'_>> = names.iter().map(|name| vec![name.as_bytes()]).collect();
        assert_eq!(known.unknown(&asked).len(), 4);
        known.learn(names.to_vec(), &rows);
        assert_eq!(known.unknown(&asked), [""; 0]);
        for (line, keys) in [
            ("mset a 1 b 2", Some(vec!["a", "b"])),
            ("mset a 1 b", Some(vec!["a", "b"])),
            ("MSET", Some(vec![])),
            ("object encoding a", Some(vec!["a"])),
            ("object help a", Some(vec![])),
            ("none a", Some(vec![])),
            ("zunion 1 a", None),
        ] {
            let keys = keys.map(|keys| keys.iter().map(|key| key.as_bytes().to_vec()).collect());
            assert_eq!(known.keys(&words(line)), keys, "{line}");
        }
    }
}
