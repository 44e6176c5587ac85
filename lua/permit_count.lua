-- Counts the permits of a semaphore. Permits whose leases have ended count as available.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- reply    { available permits, leased permits }. An error if a key has another type or form

-- require "now_millis"
-- require "permits"

local available, failure = number_of(KEYS[1])
if failure then
    return failure
end
local all = redis.pcall('zcard', KEYS[2])
if type(all) == 'table' then
    return wrong_type('leases', KEYS[2], 'sorted set', all)
end
local expired = redis.call('zcount', KEYS[2], '-inf', text_of(now_millis()))
return { (available or 0) + expired, all - expired }
