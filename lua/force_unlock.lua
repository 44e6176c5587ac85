-- Deletes a lock, whoever holds it, and tells those who wait for it.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the channel of its releases
-- reply    1: there was a hold and it is gone; 0: nobody held the lock
--
-- HLEN, because a key of another type must be refused, not deleted.
if redis.call('hlen', KEYS[1]) == 0 then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', KEYS[2], '0')
return 1
