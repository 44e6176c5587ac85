//! The keys that a server has after a run.

use crate::record::Event;

/// A script that returns a line for each key: its time to live in milliseconds, or -1, its name,
/// and its value.
pub const SCRIPT: &str = "
    local found = {}
    for _, key in ipairs(redis.call('keys', '*')) do
        local kind, value = redis.call('type', key).ok, nil
        if kind == 'string' then
            value = { redis.call('get', key) }
        elseif kind == 'hash' then
            value = redis.call('hgetall', key)
        elseif kind == 'list' then
            value = redis.call('lrange', key, 0, -1)
        else
            value = redis.call('zrange', key, 0, -1)
        end
        for i, part in ipairs(value) do
            value[i] = string.gsub(part, '[^\\33-\\126]', '?')
        end
        local ends = redis.call('pttl', key)
        found[#found + 1] = ends .. ' ' .. key .. ' = ' .. table.concat(value, ' ')
    end
    return table.concat(found, '\\n')";

/// The events of the keys in a reply of [`SCRIPT`].
pub fn events(reply: &str) -> impl Iterator<Item = Event> {
    reply.lines().filter_map(|line| {
        let (ends, entry) = line.split_once(' ')?;
        Some(Event::Left {
            ends: ends.parse().ok()?,
            entry: entry.to_owned(),
        })
    })
}
