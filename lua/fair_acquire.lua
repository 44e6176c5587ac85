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
-- reply    n: the owner holds the lock, and n other clients wait. { milliseconds, 1, owner }:
--          another owner holds the lock or has the first place; the milliseconds are what is left
--          of that (-1: no expiry), but at most a third of PLACE for a caller that waits. An error,
--          without any change, if the lock has another type or form, or is in use as another kind
--
-- If the request removes the first place of a free lock, the next client is notified. The end of a
-- place behind one of Redisson counts from the end of that one: clients of Redisson subtract the
-- time of their own place from the ends of all places when they acquire the lock.

local call = redis.call
local lock, queue, ends, place = KEYS[1], KEYS[2], KEYS[3], ARGV[3]
local channels, publish = ARGV[5], ARGV[6]
local owner = string.match(ARGV[1], '%S+')

-- The place of this client, if it has the first one, ends with the grant.
local function granted(is_first)
    call('hset', lock, owner, '1')
    -- If Redis refuses the expiry, the lock must not remain without one.
    local set = redis.pcall('pexpire', lock, ARGV[2])
    if set ~= 1 then
        call('del', lock)
        return set
    end
    if is_first then
        call('lpop', queue)
        call('zrem', ends, place)
    end
    return call('llen', queue)
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
    for name in string.gmatch(ARGV[1], '%S+') do
        if name == owned_by then
            -- An earlier copy of this request acquired the lock.
            call('hset', lock, owner, '1')
            if name ~= owner then
                call('hdel', lock, name)
            end
            if call('pttl', lock) < tonumber(ARGV[2]) then
                call('pexpire', lock, ARGV[2])
            end
            return call('llen', queue)
        end
    end
    if is_of_this_library(owned_by) and not is_of_fair_lock(owned_by) then
        return mixed_kinds(1, 'reentrant or fenced', 'fair')
    end
    holder = owned_by
elseif call('lindex', queue, 0) == place then
    return granted(true)
end

local waits, now = ARGV[4] == '1', now_millis()

-- Sets the end of this client's place, behind this other one.
local function renew_place(before)
    local last = before and tonumber(call('zscore', ends, before) or 0) or 0
    if before and not is_ours(before) then
        last = last + PLACE
    end
    local end_ms = math.floor(math.max(last, now + PLACE))
    local is_heard = (listeners(channels .. place, publish) or 0) > 0
    call('zadd', ends, end_ms + (is_heard and 0.5 or 0), place)
end

-- First, so that a client that is a little late keeps its place.
local is_queued = false
if waits and call('zscore', ends, place) then
    local before
    for _, other in ipairs(call('lrange', queue, 0, -1)) do
        if other == place then
            is_queued = true
            renew_place(before)
            break
        end
        before = other
    end
end

local head, head_ends, is_removed = fair_head(queue, ends, now, not holder and channels, publish)
local left
if holder then
    left = call('pttl', lock)
elseif not head or head == place then
    return granted(head)
else
    if is_removed then
        notify(head, channels, publish)
    end
    holder, left = head, head_ends - now
end

if waits then
    if not is_queued then
        renew_place(call('lindex', queue, -1))
        call('rpush', queue, place)
    end
    -- Clients of Redisson set no expiry and may wait behind this one, so it is a late one.
    local last = tonumber(call('zscore', ends, call('lindex', queue, -1)) or 0)
    local late = math.floor(math.max(last - now, 0)) + 3600000
    call('pexpire', queue, late)
    call('pexpire', ends, late)
    local third = PLACE / 3
    left = left < 0 and third or math.min(left, third)
end
return { left, 1, holder }
