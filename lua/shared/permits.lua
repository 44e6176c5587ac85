-- Functions for semaphores whose permits have leases: a number of available permits, and a sorted
-- set of the ids of leased permits with the ends of their leases, in milliseconds since 1970.

-- require "number_of"

-- A number as Redis writes it.
local function text_of(number)
    return string.format('%.0f', number)
end

-- A semaphore whose number was set by an acquire expires after this time without one, in
-- milliseconds.
local UNUSED = 3600000

-- The scores and members of permits: `ids` has 16 bytes for each.
local function scored(ids, ends)
    local members, score = {}, text_of(ends)
    for at = 1, #ids, 16 do
        members[#members + 1] = score
        members[#members + 1] = string.sub(ids, at, at + 15)
    end
    return unpack(members)
end

-- Returns when the first of the leases of these permits ends; false if one of them is not leased;
-- or an error.
local function leased_until(leases, ids)
    local first = math.huge
    for at = 1, #ids, 16 do
        local ends = redis.pcall('zscore', leases, string.sub(ids, at, at + 15))
        if type(ends) ~= 'string' then
            return ends
        end
        first = math.min(first, tonumber(ends))
    end
    return first
end

-- Removes these ids from the leased permits: `ids` has 16 bytes for each.
local function remove_ids(leases, ids)
    for at = 1, #ids, 16 do
        redis.call('zrem', leases, string.sub(ids, at, at + 15))
    end
end

-- If a semaphore expires, it does so no earlier than in this time.
local function keep_for(key, leases, millis)
    for _, kept in ipairs({ key, leases }) do
        local life = redis.call('pttl', kept)
        if life >= 0 and life < millis then
            redis.call('pexpire', kept, text_of(millis))
        end
    end
end

-- Leases available permits under these ids until `ends`. If the semaphore expires, it does so no
-- earlier than in `kept` milliseconds. Returns how many permits are available then; or an error,
-- without any change.
local function lease_permits(key, leases, ids, ends, kept)
    local wanted = #ids / 16
    local left = redis.pcall('decrby', key, wanted)
    if type(left) == 'table' then
        return left
    end
    local leased = redis.pcall('zadd', leases, scored(ids, ends))
    if leased ~= wanted then
        redis.call('incrby', key, wanted)
        return leased
    end
    -- A semaphore expires as a whole.
    local life = redis.call('pttl', key)
    if life >= 0 then
        redis.call('pexpire', leases, math.max(life, 1))
        keep_for(key, leases, kept)
    end
    return left
end

-- Ends the leases of these permits, which end at these times. Returns how many permits are
-- available then; or an error, without any change.
local function end_leases(key, leases, ids, ends)
    -- First, because Redis allows this command also if it is short of memory, and the following one
    -- then, too.
    redis.call('zrem', leases, unpack(ids))
    local available = redis.pcall('incrby', key, #ids)
    if type(available) == 'table' then
        for at, id in ipairs(ids) do
            redis.call('zadd', leases, ends[at], id)
        end
        local _, failure = number_of(key)
        return failure or available
    end
    return available
end
