-- Deletes a lock, regardless of its owner, and notifies the waiting clients and the holders.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  the channel for releases of the lock, if it is no read-write lock; with a colon and a
--          place, that of the place
-- ARGV[2]  the command that publishes: publish or spublish
-- reply    1: the lock was held and is deleted; 2: a client in the line was called, too; 0: no
--          owner held it. An error, without any change, if the key has another type or form
--
-- The other keys of the lock have names that the script derives. If it declared them, Redis would
-- refuse the script while the slot of the lock moves to another server.
--
-- All messages: src/protocol/message.rs.

-- require "holder_of"
-- require "fair_head"
-- require "line"
-- require "read_write"

-- Sends the word `freed` and the key of the lock to a client that held it, by its owner id. Such a
-- client may listen on a channel of its own. That channel is named like that of a lock: in the
-- namespace of the client, which is one of the first parts of the key.
-- pcall: the lock is released even if the user may not publish there.
local notified = {}
local function notify_holder(lock, owner)
    local client = string.match(owner, '^([^:]+):')
    if client and not notified[client] then
        notified[client] = true
        local at = 0
        repeat
            local name = string.sub(lock, 1, at) .. 'leasehold:' .. client
            redis.pcall('publish', 'redisson_lock__channel:' .. tagged(name), 'freed ' .. lock)
            at = string.find(lock, ':', at + 1, true)
        until not at
    end
end

local lock, channel, publish = KEYS[1], ARGV[1], ARGV[2]
if redis.call('exists', lock) == 0 then
    return 0
end
local owner, _, failure = holder_of(lock)
local owners = { owner, '1' }
if not owner then
    local mode = mode_of(lock)
    if not mode then
        return failure
    end
    local one, no_one = owner_of(lock, mode == 'write')
    if not one then
        return no_one
    end
    owners = redis.call('hlen', lock) > MANY and {} or redis.call('hgetall', lock)
    for i = 1, #owners, 2 do
        if owners[i] ~= 'mode' and not is_owner(owners[i]) then
            return no_owner()
        end
    end
end
redis.call('del', lock)
-- pcall: the lock is released even if the user may not publish, or the queue cannot be read.
redis.pcall(publish, owner and channel or read_write_channel(lock), owner and '0' or '1')
local is_called = call_next(lock, publish)
for i = 1, #owners, 2 do
    notify_holder(lock, owners[i])
    for hold = 1, math.min(tonumber(owners[i + 1]) or 0, MANY) do
        redis.pcall('del', timeout_key(lock, owners[i], hold))
    end
end
local queue, ends = 'redisson_lock_queue:' .. tagged(lock), 'redisson_lock_timeout:' .. tagged(lock)
if redis.pcall('exists', queue) == 1 then
    pcall(notify_head, queue, ends, channel .. ':', publish)
end
return is_called and 2 or 1
