-- Renews the leases of many permits and replies which of them are still leased.
--
-- KEYS[i]      the leased permits of a semaphore: a sorted set of ids with the ends of their leases
-- ARGV[2i-1]   the id of a permit, 16 bytes
-- ARGV[2i]     least time to live from now on, in milliseconds; never shortens it; 0: no change
-- reply[i]     1: renewed; 0: the permit is not leased, or its lease has ended; -1: the key has
--              another type

-- require "now_millis"
-- require "permits"

local now = now_millis()
local replies = {}
for i, leases in ipairs(KEYS) do
    local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    -- pcall: a key of another type must not prevent the renewal of the other permits.
    local ends = redis.pcall('zscore', leases, id)
    if type(ends) == 'table' then
        if not string.find(ends.err, 'WRONGTYPE', 1, true) then
            return ends
        end
        replies[i] = -1
    elseif ends and tonumber(ends) > now then
        if lease > 0 and tonumber(ends) < now + lease then
            -- First, because Redis without memory refuses a script only at its first write. The set
            -- has no such member.
            redis.call('zrem', leases, '')
            redis.call('zadd', leases, text_of(now + lease), id)
        end
        replies[i] = 1
    else
        -- A late request must not lease a permit again whose holder has died.
        replies[i] = 0
    end
end
return replies
