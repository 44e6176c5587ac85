-- Reads who holds a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- reply    nil: nobody; else { PTTL (-1: it never expires), owner, hold count }
local fields = redis.call('hgetall', KEYS[1])
if #fields == 0 then
    return nil
end
return { redis.call('pttl', KEYS[1]), fields[1], fields[2] }
