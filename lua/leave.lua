-- Gives up a lock but keeps it locked for a while. Waiting clients are notified and read its new
-- time to live.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  names that the owner may have in the hash, separated by spaces
-- ARGV[2]  new time to live in milliseconds, longer or shorter than the old one
-- ARGV[3]  a unique name that replaces the owner's, so that a late renewal has no effect
-- ARGV[4]  the channel for releases of the lock. It is not in KEYS, because a cluster that moves a
--          slot refuses requests of which some keys are missing
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    1: given up; 0: no owner holds the lock; -1: another owner holds it
for name in string.gmatch(ARGV[1], '%S+') do
    if redis.call('hexists', KEYS[1], name) == 1 then
        redis.call('hset', KEYS[1], ARGV[3], 1)
        redis.call('hdel', KEYS[1], name)
        redis.call('pexpire', KEYS[1], ARGV[2])
        -- pcall: the lock is given up even if the user lacks permission to publish.
        redis.pcall(ARGV[5], ARGV[4], '0')
        return 1
    end
end
-- An earlier copy of this request has given it up.
if redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
    return 1
end
return redis.call('exists', KEYS[1]) * -1
