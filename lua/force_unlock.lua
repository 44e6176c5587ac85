-- Deletes a lock, regardless of its owner, and notifies the waiting clients.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the channel for releases of the lock
-- ARGV[2]  the command that publishes: publish or spublish
-- reply    1: the lock was held and is deleted; 0: no owner held it. An error, without any change,
--          if the key has another type or form

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
    return 0
end
local _, _, failure = holder_of(KEYS[1])
if failure then
    return failure
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
