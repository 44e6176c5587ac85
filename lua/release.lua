-- Gives a lock back, whatever its hold count, and tells those who wait for it.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the names that the owner may have there, with spaces between
-- ARGV[2]  the channel of its releases: no key, because a cluster that moves a slot wants all keys of
--          a request to be there
-- ARGV[3]  how they are announced: publish or spublish
-- reply    1: released; 0: the lock is gone; -1: somebody else holds it
for name in string.gmatch(ARGV[1], '%S+') do
    if redis.call('hexists', KEYS[1], name) == 1 then
        redis.call('del', KEYS[1])
        -- Released it is, whether it may be told or not.
        redis.pcall(ARGV[3], ARGV[2], '0')
        return 1
    end
end
return redis.call('exists', KEYS[1]) * -1
