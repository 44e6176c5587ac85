-- Releases a lock, regardless of its hold count, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  names that the owner may have in the hash, separated by spaces
-- ARGV[2]  the channel for releases of the lock. It is not in KEYS, because a cluster that moves a
--          slot refuses requests of which some keys are missing
-- ARGV[3]  the command that publishes: publish or spublish
-- reply    1: released; 0: no owner holds the lock; -1: another owner holds it
for name in string.gmatch(ARGV[1], '%S+') do
    if redis.call('hexists', KEYS[1], name) == 1 then
        redis.call('del', KEYS[1])
        -- pcall: the lock is released even if the user lacks permission to publish.
        redis.pcall(ARGV[3], ARGV[2], '0')
        return 1
    end
end
return redis.call('exists', KEYS[1]) * -1
