-- require "timeout_key"

-- True if this owner reads, under a lease of its own. The lock exists, and is of a type that fits.
local function has_own_lease(lock, owner)
    return not string.find(owner, ':write$') and redis.call('hexists', lock, 'mode') == 1
end

-- How long the lease of one hold of a reader lasts, in milliseconds; -2 if it has ended; an error
-- if a cluster moves the slot, and the key of the hold may be at the other server. The lock exists.
local function hold_left(lock, reader, hold)
    local key = timeout_key(lock, reader, hold)
    -- pcall: the old server refuses a key that is not there.
    local left = redis.pcall('pttl', key)
    if left == -2 then
        -- The new server refuses only commands with several keys of which some are not there.
        local existing = redis.pcall('exists', lock, key)
        return type(existing) == 'table' and existing or left
    end
    return left
end
