-- Acquires a free lock for one owner, with hold count 1 and, if requested, a fencing token.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  if a token is requested: the last token of this lock, an integer
-- ARGV[1]  names of the owner, separated by spaces: the name for this hold, then the names that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  with KEYS[2]: time to live of the last token, in milliseconds
-- reply    nil or { token }: the owner holds the lock; an integer: another owner holds it, PTTL of
--          the key (-1: no expiry). An error, without any change, if a key has another type or form
--
-- If an earlier copy of this request acquired the lock, its name is replaced by this one's. A copy
-- that Redis executes later then finds no hold under its own name.
local free = redis.call('exists', KEYS[1]) == 0
local holder, count, what
if not free then
    local fields = redis.pcall('hlen', KEYS[1])
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
end
local owner, found
for name in string.gmatch(ARGV[1], '%S+') do
    owner = owner or name
    if name == holder then
        found = name
    end
end
if not free and not found then
    return redis.call('pttl', KEYS[1])
end

local token
if KEYS[2] then
    local last = redis.pcall('get', KEYS[2]) or '0'
    if type(last) == 'table' then
        if not string.find(last.err, 'WRONGTYPE', 1, true) then
            return last
        end
        local kind = redis.pcall('type', KEYS[2]).ok
        return redis.error_reply('WRONGTYPE token: a ' .. (kind or 'value that is not a string'))
    end
    if not string.find(last, '^%d+$') then
        return redis.error_reply('ERR the last fencing token is not a whole number: ' .. KEYS[2])
    end
    -- Tokens are at least the time in microseconds, so they rise even after the last one expired.
    local now = redis.call('time')
    token = math.max(tonumber(last) + 1, now[1] * 1000000 + now[2])
    if token >= 9007199254740992 then
        return redis.error_reply('ERR the last fencing token is too large to count on from it')
    end
    local text = string.format('%.0f', token)
    if redis.call('pttl', KEYS[2]) == -1 then
        -- Redisson creates this key without an expiry, and its clients rely on that.
        redis.call('set', KEYS[2], text)
    else
        redis.call('set', KEYS[2], text, 'px', ARGV[3])
    end
end

if free then
    redis.call('hset', KEYS[1], owner, 1)
    -- If Redis refuses the expiry, the lock must not remain without one.
    local granted = redis.pcall('pexpire', KEYS[1], ARGV[2])
    if type(granted) == 'table' then
        redis.call('del', KEYS[1])
        return granted
    end
else
    redis.call('hset', KEYS[1], owner, 1)
    if found ~= owner then
        redis.call('hdel', KEYS[1], found)
    end
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
end
return token and { token }
