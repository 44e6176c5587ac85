-- Returns the owner and the hold count of a lock; nothing if it is free; or nothing and an error
-- that describes the key. Included in the scripts that read the owner of a lock.

-- require "kinds"
-- require "wrong_type"

local function holder_of(key)
    local fields = redis.pcall('hlen', key)
    local owner, count, what
    if type(fields) == 'table' then
        return nil, nil, wrong_type('lock', key, 'hash', fields)
    elseif fields == 0 then
        return nil
    elseif fields == 1 then
        owner, count = unpack(redis.call('hgetall', key))
        if not is_owner(owner) then
            what = 'a hash whose field is not an owner'
        elseif not is_count(count) then
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
