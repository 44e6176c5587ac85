-- Releases a permit and notifies the waiting clients.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  the id
-- ARGV[2]  the channel of the semaphore
-- reply    1: released; 0: no permit has this id
if not redis.call('zscore', KEYS[2], ARGV[1]) then
    return 0
end
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('publish', ARGV[2], redis.call('incrby', KEYS[1], 1))
return 1
