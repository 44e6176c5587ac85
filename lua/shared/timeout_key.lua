-- The key of one hold of a reader of a read-write lock. Its time to live is the lease of that hold.
-- Clients of this library have one for each grant.

-- require "tagged"

local function timeout_key(lock, reader, hold)
    return tagged(lock) .. ':' .. reader .. ':rwlock_timeout:' .. (hold or 1)
end
