-- Functions for semaphores whose permits have leases: a number of available permits, and a sorted
-- set of the ids of leased permits with the ends of their leases, in milliseconds since 1970.

-- The number of available permits, nil if the key does not exist; or an error as second value.
local function available_in(key)
    local value = redis.pcall('get', key)
    if type(value) == 'table' then
        return nil, wrong_type('lock', key, 'string', value)
    elseif value and not string.find(value, '^%-?%d+$') then
        return nil, redis.error_reply('WRONGTYPE lock: a string that is not a number of permits')
    end
    return value and tonumber(value) or nil
end

-- A number as Redis writes it.
local function text_of(number)
    return string.format('%.0f', number)
end
