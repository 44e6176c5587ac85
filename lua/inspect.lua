-- Reads the owner of a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  any: also a read-write lock; else that is an error
-- reply    nil: no owner holds it; else { PTTL (-1: no expiry), owner, hold count, number of
--          readers of a read-write lock }. If it has only readers, one of them is the owner. An
--          error if the key has another type or form

-- require "holder_of"
-- require "read_write"

if redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local owner, count, failure = holder_of(KEYS[1])
local readers = 0
if failure then
    if ARGV[1] ~= 'any' or not mode_of(KEYS[1]) then
        return failure
    end
    owner, count = writer_of(KEYS[1])
    readers = redis.call('hlen', KEYS[1]) - (owner == '' and 1 or 2)
    if owner == '' then
        owner, count = reader_of(KEYS[1])
        if not owner then
            return failure
        end
    end
end
return { redis.call('pttl', KEYS[1]), owner, count, readers }
