-- A client does not wait for a lock any more. If the lock is free, if a client of Redisson holds it,
-- or if it is a read-write lock, the next client in the line is called.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  the place of the client
-- ARGV[2]  1: only if the client has been called and has not answered; else 0
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: the client has left the line; 0: it has not, because ARGV[2] is 1
local lock, place = KEYS[1], ARGV[1]
if ARGV[2] == '1' then
    local first, called = first_in(line_of(lock))
    if first ~= place or not called then
        return 0
    end
end
end_wait(lock, place, ARGV[3])
return 1
