-- Renews the leases of many permits and replies which of them are still leased.
--
-- KEYS[2i-1]   the number of available permits of a semaphore
-- KEYS[2i]     its leased permits: a sorted set of ids with the ends of their leases
-- ARGV[2i-1]   the ids of permits that were acquired together, of 16 bytes each
-- ARGV[2i]     least time to live from now on, in milliseconds; never shortens it; 0: no change
-- reply[i]     1: renewed; 0: one of the permits is not leased, or its lease has ended; -1: the key
--              has another type
--
-- If a semaphore expires, it does so no earlier than the leases that are renewed.

-- require "now_millis"
-- require "permits"

local now = now_millis()
local replies = {}
for i = 1, #KEYS / 2 do
    local leases, ids, lease = KEYS[2 * i], ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    -- pcall inside: a key of another type must not prevent the renewal of the other permits.
    local ends = leased_until(leases, ids)
    if type(ends) == 'table' then
        if not string.find(ends.err, 'WRONGTYPE', 1, true) then
            return ends
        end
        replies[i] = -1
    elseif ends and ends > now then
        if lease > 0 and ends < now + lease then
            -- First, because Redis without memory refuses a script only at its first write. The set
            -- has no such member.
            redis.call('zrem', leases, '')
            redis.call('zadd', leases, scored(ids, now + lease))
            keep_for(KEYS[2 * i - 1], leases, lease)
        end
        replies[i] = 1
    else
        -- A late request must not lease a permit again whose holder has died.
        replies[i] = 0
    end
end
return replies
