-- Releases a fair lock for which no client waits.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places
-- ARGV[1]  the owner
-- reply    1: released; 0: this owner does not hold the lock
-- The hash has one field, so this deletes the key.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('time')
redis.call('lindex', KEYS[2], 0)
return 1
