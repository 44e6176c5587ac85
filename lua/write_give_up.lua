-- Ends the wait of a client's writer, for which readers of other clients leave the lock.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  the client
-- ARGV[2]  the channel for releases of the lock
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: the readers are notified; 0: nothing was changed

local waits = waits_key(KEYS[1])
if redis.pcall('hget', waits, 'writer') ~= ARGV[1] then
    return 0
end
redis.pcall('hdel', waits, 'writer', 'writer_until')
redis.pcall(ARGV[3], ARGV[2], '1')
return 1
