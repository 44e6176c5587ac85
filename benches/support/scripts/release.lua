-- Releases a lock and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the owner
-- ARGV[2]  the channel for releases of the lock
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: released; 0: this owner does not hold the lock
-- The hash has one field, so this deletes the key.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call(ARGV[3], ARGV[2], '0')
return 1
