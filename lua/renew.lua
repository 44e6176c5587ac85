-- Renews the leases of many locks and replies which of them their owners still hold.
--
-- KEYS[i]      a lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[3i-2]   the owner
-- ARGV[3i-1]   least time to live from now on, in milliseconds; never shortens it; 0: no change
-- ARGV[3i]     the hold count, written if it differs; empty: no change
-- reply[i]     1: renewed; 0: no owner holds it; -1: another owner holds it, or it is not a lock
-- reply        an error if a cluster moves the slot, and the lease of a reader is not here: then it
--              would end although the lock is renewed

-- require "hold_left"

local replies = {}
for i, lock in ipairs(KEYS) do
    local owner, millis, count = unpack(ARGV, 3 * i - 2, 3 * i)
    local lease = tonumber(millis)
    -- pcall: a key of another type must not prevent the renewal of the other locks.
    local written = redis.pcall('hget', lock, owner)
    if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
        return written
    elseif type(written) == 'string' then
        if lease > 0 and has_own_lease(lock, owner) then
            local left = hold_left(lock, owner)
            if type(left) == 'table' then
                return left
            elseif left == -2 then
                -- pcall: the key has been deleted. If Redis refuses it, the lease of the lock is
                -- still renewed.
                redis.pcall('set', timeout_key(lock, owner), '1', 'px', millis)
            elseif left < lease then
                redis.call('pexpire', timeout_key(lock, owner), millis)
            end
        end
        if lease > 0 and redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, millis)
        end
        if count ~= '' and written ~= count then
            -- pcall: the count is information. If Redis refuses it, the lease is still renewed.
            redis.pcall('hset', lock, owner, count)
        end
        replies[i] = 1
    else
        replies[i] = redis.call('exists', lock) * -1
    end
end
return replies
