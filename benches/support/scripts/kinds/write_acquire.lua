-- Acquires the write lock of a free read-write lock.
--
-- KEYS[1]  the lock: a hash of its mode, and of the writer to its hold count
-- KEYS[2]  the clients that wait: a hash
-- ARGV[1]  the owner
-- ARGV[2]  lease in milliseconds
-- reply    1: acquired; 0: it is not free
if redis.call('exists', KEYS[1], KEYS[2]) > 0 then
    return 0
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
