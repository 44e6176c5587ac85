-- Reads who holds a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- reply    nil: no owner holds it; else { PTTL (-1: it never expires), owner, hold count }. An error
--          if the key holds something else

-- The owner of the lock and its count, or as the third value the error for a key that holds something else.
-- This function is the same in acquire.lua, force_unlock.lua and inspect.lua; a unit test compares them.
local function holder(key)
    local found
    local fields = redis.pcall('hlen', key)
    if type(fields) == 'table' then
        if not string.find(fields.err, 'WRONGTYPE', 1, true) then
            return nil, nil, fields
        end
        -- Without the right to ask for the type, its name stays unknown.
        local kind = redis.pcall('type', key).ok
        found = kind and 'a ' .. kind or 'a value that is not a hash'
    elseif fields == 1 then
        local owner, count = unpack(redis.call('hgetall', key))
        if owner == '' or owner == 'mode' or string.find(owner, '[^ -~]') then
            found = 'a hash whose field is no owner'
        elseif not string.find(count, '^[1-9]%d*$') or tonumber(count) > 4294967295 then
            found = 'a hash whose value is no hold count'
        else
            return owner, count
        end
    elseif redis.call('hexists', key, 'mode') == 1 then
        found = 'a read-write lock'
    else
        found = 'a hash of ' .. fields .. ' fields'
    end
    return nil, nil, redis.error_reply('WRONGTYPE lock: ' .. found)
end

if redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local owner, count, refusal = holder(KEYS[1])
return refusal or { redis.call('pttl', KEYS[1]), owner, count }
