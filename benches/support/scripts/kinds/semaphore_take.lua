-- Takes a permit of a semaphore, and records the request.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of the client: a hash
-- ARGV[1]  the record
-- reply    1: taken; 0: none is free
redis.call('hget', KEYS[2], '0')
if tonumber(redis.call('get', KEYS[1])) < 1 then
    return 0
end
redis.call('hset', KEYS[2], '0', ARGV[1])
redis.call('pexpire', KEYS[2], 120000)
redis.call('incrby', KEYS[1], -1)
return 1
