-- Reads the owner of a lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- reply    nil: no owner holds it; else { PTTL (-1: no expiry), owner, hold count }. An error if
--          the key has another type or form
if redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local fields = redis.pcall('hlen', KEYS[1])
local holder, count, what
-- Describes the key if it is not a lock. These lines are the same in acquire.lua,
-- force_unlock.lua and inspect.lua; a unit test compares them.
if type(fields) == 'table' then
    if not string.find(fields.err, 'WRONGTYPE', 1, true) then
        return fields
    end
    -- Without permission for TYPE, the type stays unknown.
    local kind = redis.pcall('type', KEYS[1]).ok
    what = kind and 'a ' .. kind or 'a value that is not a hash'
elseif fields == 1 then
    holder, count = unpack(redis.call('hgetall', KEYS[1]))
    if holder == '' or holder == 'mode' or string.find(holder, '[^ -~]') then
        what = 'a hash whose field is not an owner'
    elseif not string.find(count, '^[1-9]%d*$') or tonumber(count) > 4294967295 then
        what = 'a hash whose value is not a hold count'
    end
elseif redis.call('hexists', KEYS[1], 'mode') == 1 then
    what = 'a read-write lock'
else
    what = 'a hash of ' .. fields .. ' fields'
end
if what then
    return redis.error_reply('WRONGTYPE lock: ' .. what)
end
return { redis.call('pttl', KEYS[1]), holder, count }
