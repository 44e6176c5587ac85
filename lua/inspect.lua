-- Reads an owner of a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  lock: not of a read-write lock, which is an error; read: a reader of a read-write lock;
--          write: its writer; any: of any lock. Of a read-write lock the writer, else a reader
-- reply    nil: there is no such owner; else { PTTL (-1: no expiry), owner, hold count, number of
--          readers of a read-write lock }. An error if the key has another type or form

-- require "holder_of"
-- require "read_write"

local lock, wanted = KEYS[1], ARGV[1]
local owner, count, failure
if wanted == 'lock' or wanted == 'any' then
    owner, count, failure = holder_of(lock)
    if owner or failure and wanted == 'lock' then
        return failure or { redis.call('pttl', lock), owner, count, 0 }
    end
end
local mode, other_failure = mode_of(lock)
if not mode then
    return failure or other_failure
end
owner, count = owner_of(lock, mode == 'write')
if not owner then
    return count
elseif wanted == 'read' and mode == 'write' then
    -- The writer may also read.
    owner, count = owner_of(lock, false)
end
if not owner or wanted == 'write' and mode == 'read' then
    return nil
end
local readers = redis.call('hlen', lock) - (mode == 'write' and 2 or 1)
return { redis.call('pttl', lock), owner, count, readers }
