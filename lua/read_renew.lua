-- Renews the leases of many read locks and replies which of them their owners still hold.
--
-- KEYS[i]      a lock: see shared/read_write.lua
-- ARGV[3i-2]   the reader
-- ARGV[3i-1]   least time to live from now on, in milliseconds; never shortens it; 0: no change
-- ARGV[3i]     the hold count, written if it differs; empty: no change
-- reply[i]     1: renewed; 0: no owner holds it; -1: other owners hold it, or it is not a lock

-- require "read_write"

local replies = {}
for i, lock in ipairs(KEYS) do
    local reader, lease, count = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
    -- pcall: a key of another type must not prevent the renewal of the other locks.
    local written = redis.pcall('hget', lock, reader)
    if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
        return written
    elseif type(written) == 'string' then
        if lease > 0 then
            local hold = timeout_key(lock, reader)
            -- pcall: a cluster that moves the slot refuses a key that is not there. If Redis
            -- refuses it, the lease of the lock is still renewed.
            local left = redis.pcall('pttl', hold)
            if left == -2 then
                -- The key has been deleted.
                redis.pcall('set', hold, '1', 'px', ARGV[3 * i - 1])
            elseif type(left) == 'number' and left < lease then
                redis.call('pexpire', hold, ARGV[3 * i - 1])
            end
            if redis.call('pttl', lock) < lease then
                redis.call('pexpire', lock, ARGV[3 * i - 1])
            end
        end
        if count ~= '' and written ~= count then
            -- pcall: the count is information. If Redis refuses it, the lease is still renewed.
            redis.pcall('hset', lock, reader, count)
        end
        replies[i] = 1
    else
        replies[i] = redis.call('exists', lock) * -1
    end
end
return replies
