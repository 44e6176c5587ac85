-- Renews the leases of many locks and replies which of them their owners still hold.
--
-- KEYS[i]      a lock: a hash of owner to hold count
-- ARGV[2i-1]   names that its owner may have in the hash, separated by spaces
-- ARGV[2i]     least time to live from now on, in milliseconds; never shortens it; 0: no change
-- reply[i]     1: renewed; 0: no owner holds it; -1: another owner holds it, or it is not a lock
--
-- pcall: a key of another type must not prevent the renewal of the other locks.
local function is_held(lock, names)
    for name in string.gmatch(names, '%S+') do
        if redis.pcall('hexists', lock, name) == 1 then
            return true
        end
    end
    return false
end

local replies = {}
for i, lock in ipairs(KEYS) do
    if is_held(lock, ARGV[2 * i - 1]) then
        local lease = tonumber(ARGV[2 * i])
        if lease > 0 and redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, ARGV[2 * i])
        end
        replies[i] = 1
    else
        replies[i] = redis.call('exists', lock) * -1
    end
end
return replies
