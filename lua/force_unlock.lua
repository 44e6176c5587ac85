-- Deletes a lock, whichever client holds it, and publishes that to the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the channel of its releases
-- ARGV[2]  how they are announced: publish or spublish
-- reply    1: there was a hold and it is gone; 0: no client held the lock. An error, and nothing is
--          changed, if the key holds something else

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
    return 0
end
local _, _, refusal = holder(KEYS[1])
if refusal then
    return refusal
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
