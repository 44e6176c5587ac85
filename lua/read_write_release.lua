-- Releases read or write locks, regardless of their hold counts. Calls the first client in the
-- line, and notifies those that listen to the channel for releases.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[2i-1]    fields that the owner may have in the hash, separated by spaces
-- ARGV[2i]      the channel for releases of the lock
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      released, and published: 1 + 2 * listeners + called, as of release.lua; released,
--               and not published, because readers are left: -2 - called; 0: no owner holds the
--               lock; -1: other owners hold it, or it is not a lock
-- reply         the list of these; for one lock, its reply alone
--
-- After the release of a writer, a read lock that it holds, too, stays. Then the first client is
-- called if it is a reader. After the release of a reader, clients are called and notified if no
-- reader is left, or if they have to go on looking for a reader that lives. If a reader of Redisson
-- is left, the first client is called: it may have to listen for the release of that reader.
--
-- All messages: src/protocol/message.rs.

-- require "line_of"
-- require "timeout_key"

-- One lock that has one owner, and no line.
if #KEYS == 1 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    local lock, owner = KEYS[1], ARGV[1]
    if redis.pcall('hlen', lock) == 2 and redis.call('hexists', lock, owner) == 1 then
        redis.call('del', lock)
        local is_writer = string.find(owner, ':write$')
        if not is_writer then
            -- pcall: a cluster that moves the slot refuses a key that is not there.
            redis.pcall('del', timeout_key(lock, owner))
        end
        -- pcall: the lock is released even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[3], ARGV[2], is_writer and '1' or '0')
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

-- require "remove_owner"
-- require "kinds"
-- require "line"
-- require "read_write"

-- The owner that is removed was the writer, or a reader. Returns whether the lock is free, whether
-- the search for a reader that lives is not over, and one of the readers.
local function end_if_free(lock, is_writer)
    if redis.call('hlen', lock) <= 1 then
        redis.call('del', lock)
        return true
    elseif is_writer then
        redis.call('hset', lock, 'mode', 'read')
    elseif redis.call('hget', lock, 'mode') ~= 'read' then
        return false
    end
    return end_if_unread(lock)
end

local publish = ARGV[#ARGV]
local replies = {}
for i, lock in ipairs(KEYS) do
    local names = ARGV[2 * i - 1]
    local owner, failure = remove_owner(lock, names)
    if failure then
        return failure
    elseif not owner then
        replies[i] = redis.call('exists', lock) * -1
    else
        local is_writer = string.find(owner, ':write$')
        for name in string.gmatch(is_writer and '' or names, '%S+') do
            -- pcall: a cluster that moves the slot refuses a key that is not there.
            redis.pcall('del', timeout_key(lock, name))
        end
        local is_free, goes_on, reader = end_if_free(lock, is_writer)
        local heard
        if is_free or goes_on or is_writer then
            -- pcall: the lock is released even if the user lacks permission to publish.
            heard = redis.pcall(publish, ARGV[2 * i], is_writer and '1' or '0')
        end
        -- One of the readers is enough: if it is of this library, this follows at its release.
        local is_called = (heard or (reader and not is_of_this_library(reader)))
            and call_next(lock, publish, is_writer and not is_free)
        local called = is_called and 1 or 0
        replies[i] = heard and 1 + 2 * (tonumber(heard) or 0) + called or -2 - called
    end
end
return #KEYS == 1 and replies[1] or replies
