-- Reads the owner of a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- reply    nil: no owner holds it; else { PTTL (-1: no expiry), owner, hold count }. An error if
--          the key has another type or form

-- Returns the owner and the hold count of an existing lock, or else an error that describes the
-- key. This function is the same in acquire.lua, force_unlock.lua and inspect.lua; a unit test
-- compares them.
local function holder_of(key)
    local fields = redis.pcall('hlen', key)
    local owner, count, what
    if type(fields) == 'table' then
        if not string.find(fields.err, 'WRONGTYPE', 1, true) then
            return nil, nil, fields
        end
        -- Without permission for TYPE, the type stays unknown.
        local kind = redis.pcall('type', key).ok
        what = kind and 'a ' .. kind or 'a value that is not a hash'
    elseif fields == 1 then
        owner, count = unpack(redis.call('hgetall', key))
        if owner == '' or owner == 'mode' or string.find(owner, '[^ -~]') then
            what = 'a hash whose field is not an owner'
        elseif not string.find(count, '^[1-9]%d*$') or tonumber(count) > 4294967295 then
            what = 'a hash whose value is not a hold count'
        end
    elseif redis.call('hexists', key, 'mode') == 1 then
        what = 'a read-write lock'
    else
        what = 'a hash of ' .. fields .. ' fields'
    end
    if what then
        return nil, nil, redis.error_reply('WRONGTYPE lock: ' .. what)
    end
    return owner, count
end

if redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local owner, count, failure = holder_of(KEYS[1])
if failure then
    return failure
end
return { redis.call('pttl', KEYS[1]), owner, count }
