-- Reads an owner of a read-write lock.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  read: a reader; write: the writer
-- reply    nil: no such owner holds it; else { PTTL (-1: no expiry), owner, hold count, 1 for a
--          reader or 0 }. An error if the key has another type or form

-- require "read_write"

local lock = KEYS[1]
local mode, failure = mode_of(lock)
if failure then
    return failure
end
if ARGV[1] == 'write' then
    if mode == 'write' then
        local writer, count = writer_of(lock)
        return { redis.call('pttl', lock), writer, count, 0 }
    end
    return nil
end
if mode then
    local reader, count = reader_of(lock)
    if reader then
        return { redis.call('pttl', lock), reader, count, 1 }
    end
end
return nil
