-- Returns the whole number in a key, or false if there is no such key, or else nothing and an error
-- that describes the key. Included in the scripts of semaphores and latches.
local function number_of(key)
    local text = redis.pcall('get', key)
    local what
    if type(text) == 'table' then
        if not string.find(text.err, 'WRONGTYPE', 1, true) then
            return nil, text
        end
        -- Without permission for TYPE, the type stays unknown.
        local kind = redis.pcall('type', key).ok
        what = kind and 'a ' .. kind or 'a value that is not a string'
    elseif text and (not string.find(text, '^-?%d+$') or math.abs(tonumber(text)) >= 2 ^ 53) then
        what = 'a string that is not a number of permits or a count'
    end
    if what then
        return nil, redis.error_reply('WRONGTYPE lock: ' .. what)
    end
    return text and tonumber(text)
end
