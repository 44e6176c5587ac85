-- Deletes a lock, regardless of its owner, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  the channel for releases of the lock, if it is no read-write lock
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
return 1
