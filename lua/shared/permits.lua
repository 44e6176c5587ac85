-- Functions for semaphores whose permits have leases: a number of available permits, and a sorted
-- set of the ids of leased permits with the ends of their leases, in milliseconds since 1970.

-- The error for a key of another type or form, or `failure` if it is another error.
local function wrong_type(subject, key, failure)
    if failure and not string.find(failure.err, 'WRONGTYPE', 1, true) then
        return failure
    end
    -- Without permission for TYPE, the type stays unknown.
    local kind = redis.pcall('type', key).ok or 'value of another type'
    if not failure then
        kind = 'string that is not a number of permits'
    end
    return redis.error_reply('WRONGTYPE ' .. subject .. ': a ' .. kind)
end

-- The number of available permits, nil if the key does not exist; or an error as second value.
local function available_in(key)
    local value = redis.pcall('get', key)
    if type(value) == 'table' then
        return nil, wrong_type('lock', key, value)
    elseif value and not string.find(value, '^%-?%d+$') then
        return nil, wrong_type('lock', key)
    end
    return value and tonumber(value) or nil
end

-- The time of the server in milliseconds since 1970.
local function clock()
    local now = redis.call('time')
    return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- A number as Redis writes it.
local function text_of(number)
    return string.format('%.0f', number)
end
