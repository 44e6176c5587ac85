-- Deletes a lock, whoever holds it, and tells those who wait for it.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the channel of its releases
-- ARGV[2]  how they are announced: publish or spublish
-- reply    1: there was a hold and it is gone; 0: nobody held the lock
--
-- HLEN, because a key of another type must be refused, not deleted.
if redis.call('hlen', KEYS[1]) == 0 then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
