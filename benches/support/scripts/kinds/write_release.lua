-- Releases the write lock and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of its mode, and of the writer to its hold count
-- KEYS[2]  the clients that wait: a hash
-- ARGV[1]  the owner
-- ARGV[2]  the channel for releases of the lock
-- reply    1: released; 0: this owner does not hold the lock
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call('hlen', KEYS[1]) == 2 then
    redis.call('del', KEYS[1])
    redis.call('hexists', KEYS[2], 'readers')
    redis.call('publish', ARGV[2], '1')
end
return 1
