-- Gives up the place of a client in the queue of a fair lock. If the lock is free, the client that
-- has the first place then is notified.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places, the next one first
-- KEYS[3]  when each place ends: a sorted set of place to milliseconds of the server's clock
-- ARGV[1]  the place
-- ARGV[2]  the first part of the channels: a place follows
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: the place is given up; 0: there was none

-- require "fair_head"

local call = redis.call
local removed = call('lrem', KEYS[2], 0, ARGV[1])
call('zrem', KEYS[3], ARGV[1])
if removed > 0 and call('exists', KEYS[1]) == 0 then
    notify_head(KEYS[2], KEYS[3], ARGV[2], ARGV[3])
end
return removed > 0 and 1 or 0
