-- Renews the leases of many locks of one owner.
--
-- KEYS[i]  a lock: a hash of owner to hold count
-- ARGV[1]  the owner
-- ARGV[2]  lease in milliseconds; never shortens the one of the lock
-- reply[i] 1: renewed; 0: this owner does not hold the lock
local replies = {}
for i, lock in ipairs(KEYS) do
    replies[i] = redis.call('hexists', lock, ARGV[1])
    if replies[i] == 1 and redis.call('pttl', lock) < tonumber(ARGV[2]) then
        redis.call('pexpire', lock, ARGV[2])
    end
end
return replies
