-- Gives permits of a semaphore other ids in one step: when a guard gives its permits away, and when
-- another guard adopts them.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  ids of 16 bytes each: the new ids, then those that each earlier copy of this request
--          gave, whose reply was lost, then the present ids
-- ARGV[2]  least time to live from now on, in milliseconds; never shortens it
-- ARGV[3]  the number of permits
-- reply    1: the permits have the new ids; { 0, 1, '' }: one of them is not leased, or its lease
--          has ended. An error, without any change, if the key has another type

-- require "now_millis"
-- require "permits"

local key, leases, lease, size = KEYS[1], KEYS[2], tonumber(ARGV[2]), 16 * ARGV[3]
local new, now = string.sub(ARGV[1], 1, size), now_millis()
for at = 1, #ARGV[1], size do
    local ids = string.sub(ARGV[1], at, at + size - 1)
    local ends = leased_until(leases, ids)
    if type(ends) == 'table' then
        return wrong_type('leases', leases, 'sorted set', ends)
    elseif ends and ends > now then
        redis.call('zadd', leases, scored(new, math.max(now + lease, ends)))
        if ids ~= new then
            remove_ids(leases, ids)
        end
        keep_for(key, leases, lease)
        return 1
    end
end
return { 0, 1, '' }
