-- Releases locks, regardless of their hold counts. Calls the first client in the line, and notifies
-- those that listen to the channel for releases.
--
-- KEYS[i]       a lock: a hash of owner to hold count
-- ARGV[2i-1]    names that its owner may have in the hash, separated by spaces
-- ARGV[2i]      the channel for releases of the lock. It is not in KEYS, because a cluster that
--               moves a slot refuses requests of which some keys are missing
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      released: 1 + 2 * listeners + called. Listeners is the number of clients that
--               received the message, and called is 1 if a client in the line was called, else 0.
--               Not released: 0: no owner holds the lock; -1: another owner holds it, or it is not
--               a lock
-- reply         the list of these; for one lock, its reply alone
--
-- All messages: src/protocol/message.rs.

-- require "line_of"

-- One lock that has no line. What is not released here is tried again below. pcall: the user may
-- not use the line, or a cluster is moving the slot.
if #KEYS == 1 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    if redis.pcall('hdel', KEYS[1], ARGV[1]) == 1 then
        -- pcall: the lock is released even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[3], ARGV[2], '0')
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

-- require "remove_owner"
-- require "line"

local publish = ARGV[#ARGV]
local replies = {}
for i, lock in ipairs(KEYS) do
    -- A lock has one field, so this deletes the key.
    local owner, failure = remove_owner(lock, ARGV[2 * i - 1])
    if failure then
        return failure
    elseif owner then
        -- pcall: the lock is released even if the user lacks permission to publish.
        local heard = redis.pcall(publish, ARGV[2 * i], '0')
        local is_called = call_next(lock, publish)
        replies[i] = 1 + 2 * (tonumber(heard) or 0) + (is_called and 1 or 0)
    else
        replies[i] = redis.call('exists', lock) * -1
    end
end
-- Redis takes longer to convert a list.
return #KEYS == 1 and replies[1] or replies
