-- Renews the leases of many read locks and replies which of them their owners still hold.
--
-- KEYS[i]      a lock: see shared/read_write.lua
-- ARGV[3i-2]   the reader
-- ARGV[3i-1]   least time to live from now on, in milliseconds; never shortens it; 0: no change
-- ARGV[3i]     the hold count, written if it differs; empty: no change
-- reply[i]     1: renewed; 0: no owner holds it; -1: other owners hold it, or it is not a lock

-- require "timeout_key"
-- require "renew"

return renew(function(lock, reader, lease, millis)
    local hold = timeout_key(lock, reader)
    -- pcall: a cluster that moves the slot refuses a key that is not there. If Redis refuses it, the
    -- lease of the lock is still renewed.
    local left = redis.pcall('pttl', hold)
    if left == -2 then
        -- The key has been deleted.
        redis.pcall('set', hold, '1', 'px', millis)
    elseif type(left) == 'number' and left < lease then
        redis.call('pexpire', hold, millis)
    end
end)
