-- Gives a lock back, whatever its hold count, and tells those who wait for it.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the channel of its releases
-- ARGV[1]  owner
-- reply    1: released; 0: the lock is gone; -1: somebody else holds it
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return redis.call('exists', KEYS[1]) * -1
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
