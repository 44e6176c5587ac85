-- Gives a permit of a semaphore another id in one step: when a guard gives its permit away, and
-- when another guard adopts it.
--
-- KEYS[1]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  ids of 16 bytes each: the new id, then the ids that earlier copies of this request gave,
--          whose replies were lost, then the present id
-- ARGV[2]  least time to live from now on, in milliseconds; never shortens it
-- reply    1: the permit has the new id; { 0, 1, '' }: it is not leased, or its lease has ended. An
--          error, without any change, if the key has another type

-- require "now_millis"
-- require "permits"

local leases, ids, now = KEYS[1], ARGV[1], now_millis()
local new = string.sub(ids, 1, 16)
for at = 1, #ids, 16 do
    local id = string.sub(ids, at, at + 15)
    local ends = redis.pcall('zscore', leases, id)
    if type(ends) == 'table' then
        return wrong_type('leases', leases, 'sorted set', ends)
    elseif ends and tonumber(ends) > now then
        redis.call('zadd', leases, text_of(math.max(now + ARGV[2], ends)), new)
        if id ~= new then
            redis.call('zrem', leases, id)
        end
        return 1
    end
end
return { 0, 1, '' }
