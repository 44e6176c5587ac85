-- Takes a free lock for one owner, at hold count 1, and gives the hold a fencing token if asked to.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  if a token is asked for: the last token given for this lock, a whole number
-- ARGV[1]  the owner's names, with spaces between: the one that the hold is to have, then those of
--          earlier copies of this request whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  with KEYS[2]: how long the last token is kept, in milliseconds
-- reply    nil, or { token }: the owner holds the lock; else PTTL of another owner's hold (-1: it
--          never expires)
--
-- A name of an earlier copy is there when that copy took the lock. It gives way to this one's, so that
-- a copy that comes later still finds nothing under its own.
local free = redis.call('exists', KEYS[1]) == 0
local owner, found
for name in string.gmatch(ARGV[1], '%S+') do
    owner = owner or name
    if not free and not found and redis.call('hexists', KEYS[1], name) == 1 then
        found = name
    end
end
if not free and not found then
    return redis.call('pttl', KEYS[1])
end

local token
if KEYS[2] then
    -- The clock takes over where the last token is gone: it is later than any clock that gave one.
    local now = redis.call('time')
    token = math.max((redis.call('get', KEYS[2]) or 0) + 1, now[1] * 1000000 + now[2])
    if token >= 9007199254740992 then
        return redis.error_reply('ERR the last fencing token is too large to count on from it')
    end
    local text = string.format('%.0f', token)
    if redis.call('pttl', KEYS[2]) == -1 then
        -- Kept for ever by whoever made it, as Redisson does: others count on it.
        redis.call('set', KEYS[2], text)
    else
        redis.call('set', KEYS[2], text, 'px', ARGV[3])
    end
end

if free then
    redis.call('hset', KEYS[1], owner, 1)
    -- Where this is refused, no lock may stay behind that never ends.
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
