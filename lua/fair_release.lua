-- Releases a fair lock, regardless of its hold count, and notifies the client with the first place.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places, the next one first
-- KEYS[3]  when each place ends: a sorted set of place to milliseconds of the server's clock
-- ARGV[1]  names that its owner may have in the hash, separated by spaces
-- ARGV[2]  the first part of the channels: a place follows
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: released; 0: no owner holds the lock; -1: another owner holds it, or it is not a lock

-- require "remove_owner"
-- require "fair_head"

local owner, failure = remove_owner(KEYS[1], ARGV[1])
if not owner then
    return failure or redis.call('exists', KEYS[1]) * -1
end
notify_head(KEYS[2], KEYS[3], ARGV[2], ARGV[3])
return 1
