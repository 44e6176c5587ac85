//! Runs Lua scripts, as `EVAL` and `EVALSHA` do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::commands;
use super::data::Data;
use super::keyspace::Failure;
use super::reply::Reply;
use crate::known_scripts::{KnownScripts, hash_of};

/// Makes the table `redis` from `redis.pcall`, refuses global variables as Redis does, and returns a
/// function that runs a script.
const PRELUDE: &str = "
local run = ...
redis = { pcall = run }
function redis.call(...)
    local reply = run(...)
    if type(reply) == 'table' and reply.err then
        error(reply, 0)
    end
    return reply
end
function redis.error_reply(text)
    return { err = text }
end
function redis.status_reply(text)
    return { ok = text }
end
setmetatable(_G, {
    __newindex = function(_, name)
        error('Script attempted to create global variable ' .. tostring(name), 0)
    end,
    __index = function(_, name)
        error('Script attempted to access nonexistent global variable ' .. tostring(name), 0)
    end,
})
return function(script)
    local is_done, result = pcall(script)
    if is_done or type(result) == 'table' and result.err then
        return result
    end
    return { err = 'ERR the script failed: ' .. tostring(result) }
end
";

type Texts = [Vec<u8>];

/// The interpreter, and the scripts that it knows by their hashes.
pub(super) struct Scripts {
    lua: Lua,
    run: Function,
    compiled: BTreeMap<String, Function>,
    /// Those that it knows although no client has loaded them.
    known: KnownScripts,
}

impl Scripts {
    /// Scripts that change this data.
    pub(super) fn new(data: Rc<RefCell<Data>>, known: KnownScripts) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let call = lua.create_function(move |lua, arguments: MultiValue| {
            let reply = match command(&arguments) {
                Ok((name, arguments)) => {
                    let data = &mut *data.borrow_mut();
                    data.run(&name, &arguments).inspect_err(|failure| {
                        if commands::is_unknown(failure) {
                            data.unknown.push(format!("{name}: {failure}"));
                        }
                    })
                }
                Err(failure) => Err(failure),
            };
            to_lua(lua, reply.unwrap_or_else(Reply::Error))
        })?;
        let run = lua.load(PRELUDE).call(call)?;
        Ok(Self {
            lua,
            run,
            compiled: BTreeMap::new(),
            known,
        })
    }

    /// Compiles a script, and returns its hash.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<String, Failure> {
        let hash = hash_of(source);
        if !self.compiled.contains_key(&hash) {
            let script = self.lua.load(source).into_function();
            let script =
                script.map_err(|error| format!("ERR the script cannot be compiled: {error}"))?;
            self.compiled.insert(hash.clone(), script);
        }
        Ok(hash)
    }

    pub(super) fn is_known(&self, hash: &str) -> bool {
        self.compiled.contains_key(hash) || self.known.source(hash).is_some()
    }

    pub(super) fn forget_all(&mut self) {
        self.compiled.clear();
        self.known = KnownScripts::default();
    }

    /// Runs a script. `arguments` are the number of keys, the keys and the other arguments.
    pub(super) fn run(&mut self, hash: &str, arguments: &[Vec<u8>]) -> Result<Reply, Failure> {
        if !self.compiled.contains_key(hash)
            && let Some(source) = self.known.source(hash).map(str::to_owned)
        {
            self.load(source.as_bytes())?;
        }
        let Some(script) = self.compiled.get(hash) else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".into());
        };
        let (keys, rest) = split(arguments)?;
        let run = || -> mlua::Result<Value> {
            let texts = |texts: &[Vec<u8>]| -> mlua::Result<Table> {
                let texts = texts.iter().map(|text| self.lua.create_string(text));
                self.lua
                    .create_sequence_from(texts.collect::<mlua::Result<Vec<_>>>()?)
            };
            self.lua.globals().raw_set("KEYS", texts(keys)?)?;
            self.lua.globals().raw_set("ARGV", texts(rest)?)?;
            self.run.call(script)
        };
        let result = run().and_then(|value| from_lua(&value));
        result.map_err(|error| format!("ERR the script failed: {error}"))
    }
}

/// The keys of a script, and its other arguments.
fn split(arguments: &Texts) -> Result<(&Texts, &Texts), Failure> {
    let count = arguments.first().and_then(|text| {
        let text = std::str::from_utf8(text).ok()?;
        text.parse::<usize>().ok()
    });
    count
        .and_then(|count| arguments[1..].split_at_checked(count))
        .ok_or_else(|| "ERR Number of keys can't be greater than number of args".into())
}

/// The name of a command in lower case, and its arguments.
fn command(arguments: &MultiValue) -> Result<(String, Vec<Vec<u8>>), Failure> {
    let mut texts = Vec::with_capacity(arguments.len());
    for argument in arguments {
        texts.push(match argument {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Integer(number) => number.to_string().into_bytes(),
            Value::Number(number) => number.to_string().into_bytes(),
            _ => {
                let failure = "ERR Lua redis lib command arguments must be strings or integers";
                return Err(failure.into());
            }
        });
    }
    if texts.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call".into());
    }
    let name = texts.remove(0);
    Ok((String::from_utf8_lossy(&name).to_ascii_lowercase(), texts))
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let named = |name, text: String| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(text) => named("ok", text),
        Reply::Error(text) => named("err", text),
        Reply::Int(number) => Ok(Value::Integer(number)),
        Reply::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::List(replies) => {
            let values = replies.into_iter().map(|reply| to_lua(lua, reply));
            let values = values.collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(values)?))
        }
    }
}

fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        // As Redis does it.
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::text(&*text.as_bytes()),
        Value::Table(table) => {
            if let Some(text) = table.raw_get::<Option<mlua::LuaString>>("err")? {
                return Ok(Reply::Error(text.to_string_lossy()));
            }
            if let Some(text) = table.raw_get::<Option<mlua::LuaString>>("ok")? {
                return Ok(Reply::Status(text.to_string_lossy()));
            }
            let values = table.sequence_values::<Value>();
            let replies = values.map(|value| from_lua(&value?));
            Reply::List(replies.collect::<mlua::Result<_>>()?)
        }
        _ => Reply::Nil,
    })
}
