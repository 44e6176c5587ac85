-- Releases a fair lock, regardless of its hold count, and notifies the client with the first place.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places, the next one first
-- KEYS[3]  when each place ends: a sorted set of place to milliseconds of the server's clock
-- ARGV[1]  names that its owner may have in the hash, separated by spaces
-- ARGV[2]  the first part of the channels: a place follows
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: released; 0: no owner holds the lock; -1: another owner holds it, or it is not a lock

-- require "fair_head"

local lock = KEYS[1]
local is_released
for name in string.gmatch(ARGV[1], '%S+') do
    local deleted = redis.pcall('hdel', lock, name)
    if type(deleted) == 'table' then
        return string.find(deleted.err, 'WRONGTYPE', 1, true) and -1 or deleted
    end
    is_released = is_released or deleted == 1
end
if not is_released then
    return redis.call('exists', lock) * -1
end
notify_head(KEYS[2], KEYS[3], ARGV[2], ARGV[3])
return 1
