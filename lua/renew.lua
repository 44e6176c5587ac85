-- Brings the leases of many locks up to what their owners ask, and tells which of them still stand.
--
-- KEYS[i]      a lock: a hash of owner to hold count
-- ARGV[2i-1]   the names that its owner may have there, with spaces between
-- ARGV[2i]     lease in milliseconds that must be left at least; never shortens what is left; 0: as it is
-- reply[i]     1: renewed; 0: the lock is gone; -1: somebody else holds it, or it is no lock any more
--
-- pcall, because one key of another type must not keep the other locks from being renewed.
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
