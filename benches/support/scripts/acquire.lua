-- Acquires a free lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the owner
-- ARGV[2]  lease in milliseconds
-- reply    nil: acquired; an integer: PTTL of the lock, which another owner holds
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil
end
return redis.call('pttl', KEYS[1])
