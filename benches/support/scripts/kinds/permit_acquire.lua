-- Leases a permit.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  the id
-- ARGV[2]  lease in milliseconds
-- reply    1: leased; 0: none is available
local available = tonumber(redis.call('get', KEYS[1]))
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zscore', KEYS[2], ARGV[1])
redis.call('zrangebyscore', KEYS[2], '-inf', now, 'limit', 0, 1000)
if available < 1 then
    return 0
end
redis.call('decrby', KEYS[1], 1)
redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('pttl', KEYS[1])
return 1
