-- Reads an owner of a read-write lock.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  read: a reader; write: the writer
-- reply    nil: no such owner holds it; else { PTTL (-1: no expiry), owner, hold count }. An error if
--          the key has another type or form

local lock = KEYS[1]
local mode, failure = mode_of(lock)
if failure then
    return failure
end
if ARGV[1] == 'write' then
    if mode == 'write' then
        return { redis.call('pttl', lock), writer_of(lock) }
    end
    return nil
end
local fields = mode and redis.call('hgetall', lock) or {}
for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and not string.find(fields[i], ':write$') then
        return { redis.call('pttl', lock), fields[i], fields[i + 1] }
    end
end
return nil
