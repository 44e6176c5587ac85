-- Ends the note of a client that has waited for a read-write lock.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  the note: writer, or the client whose reader has waited
-- ARGV[2]  what the note may say: the names of the requests, separated by spaces
-- ARGV[3]  the channel for releases of the lock
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    1: the note has ended, and the waiting clients are notified if they may acquire the lock
--          now; 0: nothing was changed

local lock, note = KEYS[1], ARGV[1]
local waits = waits_key(lock)
local noted = redis.pcall('hget', waits, note)
for name in string.gmatch(ARGV[2], '%S+') do
    if name == noted then
        redis.pcall('hdel', waits, note, note .. '_until')
        local is_free = not exists(lock)
        if is_free then
            end_turn(waits)
        end
        if is_free or note == 'writer' then
            redis.pcall(ARGV[4], ARGV[3], '1')
        end
        return 1
    end
end
return 0
