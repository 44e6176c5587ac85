//! What a server of a cluster does itself: redirects, shard channels, and slots that move.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use leasehold_simulation_world::network::SocketId;

use crate::redis_server::RedisServer;
use crate::server::SessionId;
use crate::slots::{Move, Slots, slot_of};

/// While a slot moves, a script can use a key that is not here only at the new server, after
/// ASKING, and alone. And the in-memory server has no shard channels, so others stand for them.
const GUARD: &[u8] = b"
local run = redis.pcall
local without_keys = { time = true, publish = true, spublish = true, pubsub = true }
local function guarded(name, ...)
    name = string.lower(name)
    if redis.moving and not without_keys[name] then
        local keys = (name == 'exists' or name == 'del') and { ... } or { (...) }
        local missing = 0
        for _, key in ipairs(keys) do
            missing = missing + 1 - run('exists', key)
        end
        if missing > 0 and (redis.moving == 'from' or #keys > 1) then
            return { err = 'ERR Script attempted to access a non local key in a cluster node' }
        end
    end
    if name == 'pubsub' then
        local _, channel = ...
        return run('pubsub', 'numsub', channel)
    end
    return run(name == 'spublish' and 'publish' or name, ...)
end
redis.pcall = guarded
function redis.call(...)
    local reply = guarded(...)
    if type(reply) == 'table' and reply.err then
        error(reply, 0)
    end
    return reply
end
";

/// The reply to COMMAND INFO: the command has one key, which is its first argument.
const OF_ONE_KEY: &[u8] = b"*1\r\n*6\r\n+\r\n:-3\r\n*0\r\n:1\r\n:1\r\n:1\r\n";

/// A place in a cluster.
pub struct Member {
    pub group: usize,
    /// As the server knows them.
    pub slots: Rc<RefCell<Slots>>,
    /// Connections whose next command comes after ASKING.
    asking: BTreeSet<SocketId>,
    /// The shard channels of each connection.
    channels: BTreeMap<SocketId, BTreeSet<Vec<u8>>>,
    /// What the scripts know.
    moving: Moving,
}

/// Whether the slot of a script moves, and which end the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Moving {
    #[default]
    No,
    From,
    To,
}

impl Member {
    pub fn new(group: usize, slots: Rc<RefCell<Slots>>) -> Self {
        Self {
            group,
            slots,
            asking: BTreeSet::new(),
            channels: BTreeMap::new(),
            moving: Moving::No,
        }
    }

    pub fn forget(&mut self, socket: SocketId) {
        self.asking.remove(&socket);
        self.channels.remove(&socket);
    }
}

impl RedisServer {
    /// Becomes a server of a cluster. After a restart it forgets its connections.
    pub fn join(&mut self, group: usize, slots: Rc<RefCell<Slots>>) {
        self.member = Some(Member::new(group, slots));
        self.admin_script(GUARD);
    }

    /// The reply to a command that concerns the cluster.
    pub fn answer_of_cluster(
        &mut self,
        socket: SocketId,
        session: SessionId,
        command: &[Vec<u8>],
    ) -> Option<Vec<u8>> {
        let member = self.member.as_mut()?;
        let is_asking = member.asking.remove(&socket);
        let name = command.first()?.to_ascii_uppercase();
        let what = command.get(1).map(|word| word.to_ascii_uppercase());
        match (&*name, what.as_deref()) {
            (b"ASKING", _) => {
                member.asking.insert(socket);
                Some(b"+OK\r\n".into())
            }
            (b"CLUSTER", Some(b"SLOTS")) => Some(self.known_slots().reply()),
            (b"COMMAND", Some(b"INFO")) => Some(OF_ONE_KEY.into()),
            (b"PUBSUB", Some(b"SHARDNUMSUB")) => Some(b"*0\r\n".into()),
            (b"SSUBSCRIBE" | b"SUNSUBSCRIBE", _) => {
                let channel = command.get(1)?.clone();
                let redirect = self.redirect(slot_of(&channel), &[], false);
                Some(redirect.unwrap_or_else(|| self.subscribe(socket, session, &name, channel)))
            }
            (b"EVAL" | b"EVALSHA", _) => self.refusal(command, is_asking),
            _ => None,
        }
    }

    /// The error reply to a script whose keys the server does not serve.
    pub fn refusal(&mut self, script: &[Vec<u8>], is_asking: bool) -> Option<Vec<u8>> {
        self.member.as_ref()?;
        let count = String::from_utf8_lossy(script.get(2)?).parse::<usize>();
        let keys = script.get(3..3 + count.ok()?)?;
        let slot = slot_of(keys.first()?);
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Some(b"-CROSSSLOT Keys in request don't hash to the same slot\r\n".into());
        }
        self.redirect(slot, keys, is_asking)
    }

    /// The slots, with this server as the master of its group if it is.
    fn known_slots(&self) -> Slots {
        let member = self.member.as_ref().expect("it is in a cluster");
        let mut slots = member.slots.borrow().clone();
        if self.master.is_none() {
            slots.masters[member.group] = self.address;
        }
        slots
    }

    /// The error reply if the server does not serve these keys of a slot. Otherwise tells the
    /// scripts whether the slot moves.
    fn redirect(&mut self, slot: u16, keys: &[Vec<u8>], is_asking: bool) -> Option<Vec<u8>> {
        let member = self.member.as_ref()?;
        let (group, slots) = (member.group, Rc::clone(&member.slots));
        let slots = slots.borrow();
        let owner = slots.owner(slot);
        let moving = slots.moving.filter(|moving| moving.slot == slot);
        let to = |group: usize, code: &str| {
            let master = slots.masters[group];
            Some(format!("-{code} {slot} {master}\r\n").into_bytes())
        };
        let missing =
            self.with_keys(|all| keys.iter().filter(|key| all.get(key).is_none()).count());
        const TRY_AGAIN: &[u8] = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
        let state = match moving {
            _ if self.master.is_some() => return to(owner, "MOVED"),
            Some(Move { to, .. }) if to == group && is_asking => {
                if keys.len() > 1 && missing > 0 {
                    return Some(TRY_AGAIN.into());
                }
                Moving::To
            }
            _ if owner != group => return to(owner, "MOVED"),
            Some(Move { to: new, .. }) => {
                if missing > 0 {
                    return match missing == keys.len() {
                        true => to(new, "ASK"),
                        false => Some(TRY_AGAIN.into()),
                    };
                }
                Moving::From
            }
            None => Moving::No,
        };
        self.set_moving(state);
        None
    }

    fn set_moving(&mut self, state: Moving) {
        let Some(member) = self.member.as_mut() else {
            return;
        };
        if std::mem::replace(&mut member.moving, state) != state {
            self.admin_script(match state {
                Moving::No => b"redis.moving = nil",
                Moving::From => b"redis.moving = 'from'",
                Moving::To => b"redis.moving = 'to'",
            });
        }
    }

    /// Begins or ends a subscription to a shard channel.
    fn subscribe(
        &mut self,
        socket: SocketId,
        session: SessionId,
        name: &[u8],
        channel: Vec<u8>,
    ) -> Vec<u8> {
        if let Some(member) = &mut self.member {
            let channels = member.channels.entry(socket).or_default();
            match name {
                b"SSUBSCRIBE" => channels.insert(channel.clone()),
                _ => channels.remove(&channel),
            };
        }
        // Without the S.
        let reply = self.execute(session, vec![name[1..].to_vec(), channel]);
        with_shards(&reply)
    }

    /// Ends the subscriptions to the shard channels of a slot that has moved.
    pub fn end_subscriptions(&mut self, slot: u16) {
        let Some(member) = &self.member else {
            return;
        };
        let mut ended = Vec::new();
        for (socket, channels) in &member.channels {
            let moved = channels.iter().filter(|channel| slot_of(channel) == slot);
            ended.extend(moved.map(|channel| (*socket, channel.clone())));
        }
        for (socket, channel) in ended {
            if let Some(session) = self.session_of(socket) {
                let reply = self.subscribe(socket, session, b"SUNSUBSCRIBE", channel);
                self.send_reply(socket, &reply);
            }
        }
    }
}

/// The reply to SUBSCRIBE or UNSUBSCRIBE, as the server sends it for shard channels.
fn with_shards(reply: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(reply);
    let text = text.replacen("$9\r\nsubscribe", "$10\r\nssubscribe", 1);
    let text = text.replacen("$11\r\nunsubscribe", "$12\r\nsunsubscribe", 1);
    text.into_bytes()
}
