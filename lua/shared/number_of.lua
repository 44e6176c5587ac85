-- Keys with a number: the permits of a semaphore, or the count of a latch.

-- require "wrong_type"

-- Returns the whole number in a key, or false if there is no such key, or else nothing and an error
-- that describes the key.
local function number_of(key)
    local text = redis.pcall('get', key)
    if type(text) == 'table' then
        return nil, wrong_type('lock', key, 'string', text)
    elseif text and (not string.find(text, '^-?%d+$') or math.abs(tonumber(text)) >= 2 ^ 53) then
        local what = 'a string that is not a number of permits or a count'
        return nil, redis.error_reply('WRONGTYPE lock: ' .. what)
    end
    return text and tonumber(text)
end
