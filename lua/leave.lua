-- Gives a lock up, but leaves it there for a while, and has those who wait for it ask for how long.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the names that the owner may have there, with spaces between
-- ARGV[2]  time to live from now on, in milliseconds, whatever was left
-- ARGV[3]  a name of nobody else's, under which it stays: a renewal on its way finds nothing to lengthen
-- ARGV[4]  the channel of its releases: no key, because a cluster that moves a slot wants all keys of
--          a request to be there
-- ARGV[5]  how they are announced: publish or spublish
-- reply    1: given up; 0: the lock is gone; -1: somebody else holds it
for name in string.gmatch(ARGV[1], '%S+') do
    if redis.call('hexists', KEYS[1], name) == 1 then
        redis.call('hset', KEYS[1], ARGV[3], 1)
        redis.call('hdel', KEYS[1], name)
        redis.call('pexpire', KEYS[1], ARGV[2])
        -- Given up it is, whether it may be told or not.
        redis.pcall(ARGV[5], ARGV[4], '0')
        return 1
    end
end
-- As an earlier copy of this left it.
if redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
    return 1
end
return redis.call('exists', KEYS[1]) * -1
