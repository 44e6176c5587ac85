-- Acquires a fair lock for one owner, if it is free and no other client waits before this one.
-- Otherwise this client can get a place in the queue, or keep the one that it has.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the queue: a list of places, the next one first
-- KEYS[3]  when each place ends: a sorted set of place to milliseconds of the server's clock
-- ARGV[1]  names of the owner, separated by spaces: the name for this grant, then the names that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the place of this client
-- ARGV[4]  1 if the caller waits and so wants a place, else 0
-- ARGV[5]  the first part of the channels: a place follows
-- ARGV[6]  the command that publishes: publish or spublish
-- reply    1 + n: the owner holds the lock, and n other clients wait. { milliseconds, 1, owner }:
--          another owner holds the lock or has the first place; the milliseconds are what is left
--          of that (-1: no expiry). For a caller that waits, they are the time after which it asks
--          again: about a third of the life of a place, or earlier. An error, without any change,
--          if the lock has another type or form, or is in use as another kind
--
-- If a client asks again while the lock is free, the first client is notified: the lease of a dead
-- holder may have ended, the client that was notified may have died, or a message was lost. The
-- cost of a request does not depend on the number of places.
--
-- Clients of Redisson subtract the time of their own place from the ends of all places when they
-- acquire the lock. So a place behind one of Redisson has an end that is late enough for as many
-- places of Redisson as there are places, and not earlier than that of the place before.

-- require "holder_of"
-- require "kinds"
-- require "copies"
-- require "fair_head"
-- require "set_lease"

local call = redis.call
local lock, queue, ends, place = KEYS[1], KEYS[2], KEYS[3], ARGV[3]
local channels, publish = ARGV[5], ARGV[6]
local owner = string.match(ARGV[1], '%S+')

-- For how long a place of Redisson lasts by default, in milliseconds.
local PLACE_OF_REDISSON = 300000

-- The place of this client, if it has the first one, ends with the grant.
local function granted(is_first)
    call('hset', lock, owner, '1')
    local refusal = set_lease(lock, ARGV[2])
    if refusal then
        return refusal
    end
    if is_first then
        call('lpop', queue)
        call('zrem', ends, place)
    end
    return 1 + call('llen', queue)
end

if call('exists', lock, queue) == 0 then
    return granted(false)
end

local holder
if call('exists', lock) == 1 then
    local owned_by, _, failure = holder_of(lock)
    if failure then
        return failure
    end
    local older = held_name(lock, ARGV[1])
    if older then
        take_over(lock, older, owner, ARGV[2])
        return 1 + call('llen', queue)
    end
    if is_of_this_library(owned_by) and not is_of_fair_lock(owned_by) then
        return mixed_kinds(1, 'reentrant or fenced', 'fair')
    end
    holder = owned_by
elseif call('lindex', queue, 0) == place then
    return granted(true)
end

local waits, now = ARGV[4] == '1', now_millis()
local count, life = call('llen', queue), life_of_places(queue)

-- The end of this client's place; nil if it is not in the queue.
local function own_end()
    local end_ms = tonumber(call('zscore', ends, place) or nil)
    if not end_ms or call('zcard', ends) == count then
        return end_ms
    end
    -- One of the two keys was deleted or evicted.
    for at = 0, count - 1 do
        if call('lindex', queue, at) == place then
            return end_ms
        end
    end
end

-- Sets the end of this client's place: after its life, or if it is behind a place of Redisson, late
-- enough, and not before `earliest`.
local function renew_place(is_behind, earliest)
    local end_ms = now + life
    if is_behind then
        end_ms = math.max(math.floor(earliest), end_ms + count * PLACE_OF_REDISSON)
    end
    local is_heard = (listeners(channels .. place, publish) or 0) > 0
    end_ms = end_ms + (is_heard and LISTENED or 0) + (is_behind and BEHIND_REDISSON or 0)
    call('zadd', ends, end_ms, place)
end

-- First, so that a client that is a little late keeps its place.
local last_own_end = waits and own_end()
if last_own_end then
    local is_first = call('lindex', queue, 0) == place
    renew_place(not is_first and is_behind_redisson(last_own_end), last_own_end)
end

local head, head_ends = fair_head(queue, ends, now, not holder and channels, publish)
if not holder and (not head or head == place) then
    return granted(head)
end
if head and last_own_end and not holder then
    notify(head, channels, publish)
end
local left = holder and call('pttl', lock) or head_ends - now

if waits then
    local last = call('lindex', queue, -1)
    local last_end = last and tonumber(call('zscore', ends, last) or 0) or 0
    if not last_own_end then
        call('rpush', queue, place)
        renew_place(last and not is_ours(last) or is_behind_redisson(last_end), last_end)
    end
    -- Clients of Redisson set no expiry and may wait behind this one, so it is a late one.
    local late = math.floor(math.max(last_end - now, life)) + 3600000
    call('pexpire', queue, late)
    call('pexpire', ends, late)
    local third = life / 3
    left = left < 0 and third or math.min(left, third)
    if life > PLACE and head ~= place then
        -- In a long queue, only the first client asks when the lease ends. The others ask at times
        -- that differ, so some other asks soon after that. Of the thousandths of a second, two that
        -- follow each other lead to times that are far apart.
        left = third * (0.1 + 1.8 * (now * 619 % 1000 / 1000))
    end
end
return { left, 1, holder or head }
