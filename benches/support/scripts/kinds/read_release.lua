-- Releases the read lock of the only reader and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of its mode, and of readers to hold counts
-- KEYS[2]  the clients that wait: a hash
-- KEYS[3]  the hold: its time to live is the lease
-- ARGV[1]  the owner
-- ARGV[2]  the channel for releases of the lock
-- reply    1: released; 0: this owner does not hold the lock
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('del', KEYS[3])
if redis.call('hlen', KEYS[1]) == 1 then
    redis.call('del', KEYS[1])
    redis.call('hget', KEYS[2], 'writer_until')
    redis.call('publish', ARGV[2], '0')
end
return 1
