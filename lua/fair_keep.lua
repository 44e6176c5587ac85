-- Gives up a fair lock but keeps it locked for a while. The client with the first place is notified
-- and reads the new time to live.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places, the next one first
-- KEYS[3]  when each place ends: a sorted set of place to milliseconds of the server's clock
-- ARGV[1]  names that its owner may have in the hash, separated by spaces
-- ARGV[2]  new time to live in milliseconds, longer or shorter than the old one
-- ARGV[3]  a unique name that replaces the owner's, so that a late renewal has no effect
-- ARGV[4]  the first part of the channels: a place follows
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    1: given up; 0: no owner holds the lock; -1: another owner holds it

-- require "copies"
-- require "fair_head"

local lock, new = KEYS[1], ARGV[3]
local name = held_name(lock, ARGV[1])
if name then
    redis.call('hset', lock, new, 1)
    redis.call('hdel', lock, name)
    redis.call('pexpire', lock, ARGV[2])
    notify_head(KEYS[2], KEYS[3], ARGV[4], ARGV[5])
    return 1
end
-- 1 if an earlier copy of this request has given it up.
return held_name(lock, new) and 1 or redis.call('exists', lock) * -1
