-- Writes the hold count of a lock that the owner must already hold: a nested acquire or its release.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  owner
-- ARGV[2]  hold count from now on, 1 or more
-- ARGV[3]  lease in milliseconds that must be left at least; never shortens what is left; 0: as it is
-- reply    1: written; 0: the lock is gone; -1: somebody else holds it
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return redis.call('exists', KEYS[1]) * -1
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
local lease = tonumber(ARGV[3])
if lease > 0 and redis.call('pttl', KEYS[1]) < lease then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return 1
