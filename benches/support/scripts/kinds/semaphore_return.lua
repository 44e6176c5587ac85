-- Returns a permit of a semaphore, records the request, and notifies the waiting clients.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of the client: a hash
-- ARGV[1]  the record
-- ARGV[2]  the channel of the semaphore
-- reply    1
redis.call('hget', KEYS[2], '0')
local free = tonumber(redis.call('get', KEYS[1])) + 1
redis.call('hset', KEYS[2], '0', ARGV[1])
redis.call('pexpire', KEYS[2], 120000)
redis.call('incrby', KEYS[1], 1)
redis.call('publish', ARGV[2], free)
return 1
