-- Deletes a lock, regardless of its owner, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  the channel for releases of the lock, if it is no read-write lock; with a colon and a
--          place, that of the place
-- ARGV[2]  the command that publishes: publish or spublish
-- reply    1: the lock was held and is deleted; 0: no owner held it. An error, without any change,
--          if the key has another type or form
--
-- The other keys of the lock have names that the script derives. If it declared them, Redis would
-- refuse the script while the slot of the lock moves to another server.

local lock = KEYS[1]
if redis.call('exists', lock) == 0 then
    return 0
end
local _, _, failure = holder_of(lock)
if not failure then
    redis.call('del', lock)
    redis.pcall(ARGV[2], ARGV[1], '0')
    local queue = 'redisson_lock_queue:' .. tagged(lock)
    if redis.pcall('exists', queue) == 1 then
        -- pcall: the lock is released even if the queue cannot be read.
        pcall(notify_head, queue, 'redisson_lock_timeout:' .. tagged(lock), ARGV[1] .. ':', ARGV[2])
    end
    return 1
end

if not mode_of(lock) then
    return failure
end
local fields = redis.call('hlen', lock) > MANY and {} or redis.call('hgetall', lock)
redis.call('del', lock)
redis.pcall(ARGV[2], read_write_channel(lock), '1')
for i = 1, #fields, 2 do
    for hold = 1, math.min(tonumber(fields[i + 1]) or 0, MANY) do
        redis.pcall('del', timeout_key(lock, fields[i], hold))
    end
end
return 1
