-- Acquires a free fair lock for which no client waits.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places
-- ARGV[1]  the owner
-- ARGV[2]  lease in milliseconds
-- reply    1: acquired; 0: it is not free
if redis.call('exists', KEYS[1], KEYS[2]) > 0 then
    return 0
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
redis.call('llen', KEYS[2])
return 1
