-- Takes a free lock for one owner, at hold count 1.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- reply    nil: the owner holds the lock; else PTTL of another owner's hold (-1: it never expires)
--
-- The owner's own field is there when the reply to an earlier copy of this request was lost: that
-- attempt took the lock, so its count stands and only the lease is brought up to what is asked.
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], ARGV[1], 1)
    -- Where this is refused, no lock may stay behind that never ends.
    local granted = redis.pcall('pexpire', KEYS[1], ARGV[2])
    if type(granted) == 'table' then
        redis.call('del', KEYS[1])
        return granted
    end
    return nil
end
local left = redis.call('pttl', KEYS[1])
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return left
end
if left < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return nil
