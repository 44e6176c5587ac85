-- Deletes a lock, regardless of its owner, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the channel for releases of the lock
-- ARGV[2]  the command that publishes: publish or spublish
-- reply    1: the lock was held and is deleted; 0: no owner held it. An error, without any change,
--          if the key has another type or form

if redis.call('exists', KEYS[1]) == 0 then
    return 0
end
local _, _, failure = holder_of(KEYS[1])
if failure then
    return failure
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
