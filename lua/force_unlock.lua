-- Deletes a lock, regardless of its owner, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- KEYS[2]  of a fair lock, the queue: a list of places, the next one first
-- KEYS[3]  of a fair lock, when each place ends
-- ARGV[1]  the channel for releases of the lock, if it is no read-write lock; with a colon and a
--          place, that of the place
-- ARGV[2]  the command that publishes: publish or spublish
-- reply    1: the lock was held and is deleted; 0: no owner held it. An error, without any change,
--          if the key has another type or form

if redis.call('exists', KEYS[1]) == 0 then
    return 0
end
local _, _, failure = holder_of(KEYS[1])
local channel, message = ARGV[1], '0'
if failure then
    if not mode_of(KEYS[1]) then
        return failure
    end
    channel, message = read_write_channel(KEYS[1]), '1'
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], channel, message)
if redis.call('exists', KEYS[2]) == 1 then
    local head = fair_head(KEYS[2], KEYS[3])
    if head then
        redis.pcall(ARGV[2], ARGV[1] .. ':' .. head, '0')
    end
end
return 1
