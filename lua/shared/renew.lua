-- Renews the leases of the locks in KEYS: the script renew.lua. Before that, calls `renew_hold` with
-- the lock, its owner, and the least time to live as a number and as text.
local function renew(renew_hold)
    local replies = {}
    for i, lock in ipairs(KEYS) do
        local owner, millis, count = unpack(ARGV, 3 * i - 2, 3 * i)
        local lease = tonumber(millis)
        -- pcall: a key of another type must not prevent the renewal of the other locks.
        local written = redis.pcall('hget', lock, owner)
        if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
            return written
        elseif type(written) == 'string' then
            if lease > 0 and renew_hold then
                renew_hold(lock, owner, lease, millis)
            end
            if lease > 0 and redis.call('pttl', lock) < lease then
                redis.call('pexpire', lock, millis)
            end
            if count ~= '' and written ~= count then
                -- pcall: the count is information. If Redis refuses it, the lease is still renewed.
                redis.pcall('hset', lock, owner, count)
            end
            replies[i] = 1
        else
            replies[i] = redis.call('exists', lock) * -1
        end
    end
    return replies
end
