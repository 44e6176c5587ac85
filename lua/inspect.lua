-- Reads the owner of a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- reply    nil: no owner holds it; else { PTTL (-1: no expiry), owner, hold count }. An error if
--          the key has another type or form

if redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local owner, count, failure = holder_of(KEYS[1])
if failure then
    return failure
end
return { redis.call('pttl', KEYS[1]), owner, count }
