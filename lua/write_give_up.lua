-- Ends the wait of a writer, for which readers of other clients leave the lock.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  the fields that the writer wanted, separated by spaces
-- ARGV[2]  the channel for releases of the lock
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: the readers are notified; 0: nothing was changed

local waits = waits_key(KEYS[1])
local writer = redis.pcall('hget', waits, 'writer')
for name in string.gmatch(ARGV[1], '%S+') do
    if name == writer then
        redis.pcall('hdel', waits, 'writer', 'writer_until')
        redis.pcall(ARGV[3], ARGV[2], '1')
        return 1
    end
end
return 0
