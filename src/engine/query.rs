//! The keys of the commands of a query.

use redis::Value;

use crate::base::key::slot;
use crate::base::{CallBudget, LockKey, excerpt};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::protocol::{Command, decoded, key_positions, keys_at, name};
use crate::script::Call;

/// In the error reply of COMMAND GETKEYS about a command without keys.
const NO_KEYS: &str = "no key arguments";

/// In a cluster, the keys of these commands, which must be in the slot of the lock. A server is
/// asked once where the keys of a command are, and each time if that depends on its arguments.
///
/// The script declares them, so a cluster that moves the slot executes all of the commands or none.
pub(crate) fn keys_of(
    core: &Core,
    lock: &LockKey,
    commands: &[Command<'_>],
    budget: &CallBudget,
) -> Result<Vec<Vec<u8>>> {
    if !core.redis.topology.has_slots() {
        return Ok(Vec::new());
    }
    let ask = |command: &redis::Cmd| {
        let call = Call::of_command(command);
        let decode = decoded::<Vec<Value>>;
        core.redis.request_decoded(lock, call, decode, budget)
    };
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for command in commands {
        let name = name(command);
        let known = core.key_positions.lock().get(&name).copied();
        let positions = match known {
            Some(positions) => positions,
            None => {
                let positions = key_positions(&ask(redis::cmd("COMMAND").arg("INFO").arg(&name))?);
                core.key_positions.lock().insert(name, positions);
                positions
            }
        };
        match positions {
            Some(positions) => keys.extend(keys_at(command, positions).map(<[u8]>::to_vec)),
            None => {
                let asked = ask(redis::cmd("COMMAND").arg("GETKEYS").arg(command));
                let asked = match asked {
                    Err(Error::Redis { cause, .. }) if cause.to_string().contains(NO_KEYS) => {
                        Vec::new()
                    }
                    asked => asked?,
                };
                keys.extend(asked.iter().filter_map(|key| decoded::<Vec<u8>>(key).ok()));
            }
        }
    }
    match keys.iter().find(|key| slot(key) != lock.slot()) {
        None => Ok(keys),
        Some(other) => {
            let key = excerpt(format_args!("{:?}", String::from_utf8_lossy(other)));
            let own = lock.suffixed("state");
            let rule =
                format!("in a cluster, a query needs keys in the slot of the lock, as {own:?}");
            Err(Error::argument("key", key, rule).concerning(lock.name()))
        }
    }
}
