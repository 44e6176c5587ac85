-- Functions for semaphores whose permits have leases: a number of available permits, and a sorted
-- set of the ids of leased permits with the ends of their leases, in milliseconds since 1970.

-- require "number_of"

-- A number as Redis writes it.
local function text_of(number)
    return string.format('%.0f', number)
end

-- Leases an available permit under this id until `ends`. Returns how many permits are available
-- then; or an error, without any change.
local function lease_permit(key, leases, id, ends)
    local left = redis.pcall('decrby', key, 1)
    if type(left) == 'table' then
        return left
    end
    local leased = redis.pcall('zadd', leases, text_of(ends), id)
    if leased ~= 1 then
        redis.call('incrby', key, 1)
        return leased
    end
    -- A semaphore that ends at a certain time ends as a whole.
    local life = redis.call('pttl', key)
    if life > 0 then
        redis.call('pexpire', leases, life)
    end
    return left
end

-- Ends the lease of a permit whose lease ends at `ends`. Returns how many permits are available
-- then; or an error, without any change.
local function end_lease(key, leases, id, ends)
    -- First, because Redis allows this command also if it is short of memory, and the following one
    -- then, too.
    redis.call('zrem', leases, id)
    local available = redis.pcall('incrby', key, 1)
    if type(available) == 'table' then
        redis.call('zadd', leases, ends, id)
        local _, failure = number_of(key)
        return failure or available
    end
    return available
end
