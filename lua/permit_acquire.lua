-- Acquires permits of a semaphore, all or none, under ids that the client has chosen. Before that,
-- permits whose leases have ended become available, at most 1,000 of them.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  ids of 16 bytes each: the ids of these permits, then those that each earlier copy of
--          this request used, whose reply was lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the channel for permits that become available
-- ARGV[4]  the place of this client in the line (shared/permit_line.lua); empty if it has none
-- ARGV[5]  1 if the caller waits if it gets no permit, else 0
-- ARGV[6]  the number of permits that are wanted
-- ARGV[7]  how many permits there are at least; empty: as many as there are
-- ARGV[8]  the command that publishes: publish or spublish
-- reply    nil: the permits are leased. { milliseconds, 1, '', rank, listens }: not enough permits
--          are available for this client, and the first lease ends in this time (30,000: no lease
--          ends; -1: no permit is leased or available). The rank is the number of clients before
--          this one in the line. It and what follows are absent if this client is in no line.
--          Listens is 1 if it also listens to the channel, else 0. An error, without any change, if
--          a key has another type or form
--
-- A refused caller that waits and has a place enters the line. One that does not wait leaves it,
-- and may take a permit that is reserved.
--
-- If an earlier copy of this request acquired permits, they get the ids of this copy. A copy that
-- Redis executes later then cannot be taken for the holder of these permits.
--
-- If there are fewer permits than ARGV[7], those that are missing are added. A semaphore whose
-- number was set in this way expires when it is not used (UNUSED). Its next acquire sets it again.

-- require "now_millis"
-- require "permits"
-- require "line_of"

-- The end of a lease that does not end, as Redisson writes it.
local NEVER = 922337203685477

local key, leases, wanted, least = KEYS[1], KEYS[2], tonumber(ARGV[6]), tonumber(ARGV[7])
local place, waits, publish = ARGV[4], ARGV[5] == '1', ARGV[8]
local size = 16 * wanted
local ids = string.sub(ARGV[1], 1, size)
local available, failure = number_of(key)
if failure then
    return failure
end
local is_new = not available
available = available or 0

local now = now_millis()
local ends, kept = now + ARGV[2], math.max(ARGV[2], least and UNUSED or 0)
for at = 1, #ARGV[1], size do
    local earlier = string.sub(ARGV[1], at, at + size - 1)
    local score = leased_until(leases, earlier)
    if type(score) == 'table' then
        return wrong_type('leases', leases, 'sorted set', score)
    elseif score then
        local written = redis.pcall('zadd', leases, scored(ids, math.max(ends, score)))
        if type(written) == 'table' then
            return written
        end
        if earlier ~= ids then
            remove_ids(leases, earlier)
        end
        keep_for(key, leases, kept)
        return nil
    end
end

local missing = least and math.max(least - available - redis.call('zcard', leases), 0) or 0
local expired = redis.call('zrangebyscore', leases, '-inf', text_of(now), 'limit', 0, 1000)
if #expired + missing == 0
    and available >= wanted and redis.pcall('exists', line_of(key)) == 0 then
    local left = lease_permits(key, leases, ids, ends, kept)
    return type(left) == 'table' and left or nil
end

-- require "permit_line"

if #expired + missing > 0 then
    -- First, because Redis refuses this command if it is short of memory or of permissions.
    local value = redis.pcall('incrby', key, #expired + missing)
    if type(value) == 'table' then
        return value
    end
    local removed = #expired > 0 and redis.pcall('zrem', leases, unpack(expired)) or 0
    if removed ~= #expired then
        redis.call('decrby', key, #expired + missing)
        return removed
    end
    if is_new and least then
        redis.call('pexpire', key, text_of(kept))
    end
    available = value
    if available > 0 then
        notify_free(key, ARGV[3], available, publish)
    end
end

local head = head_of(key)
if waits and may_take(key, head, place, wanted, available, publish)
    or not waits and available >= wanted then
    local left = lease_permits(key, leases, ids, ends, kept)
    if type(left) == 'table' then
        return left
    end
    leave_permits(key, head, place, left, publish)
    return nil
end

local rank, listens
if place ~= '' and waits then
    rank, listens = await_permits(key, head, place, wanted, available, publish)
else
    leave_permits(key, head, place, available, publish)
end
local first = tonumber(redis.call('zrange', leases, 0, 0, 'withscores')[2])
-- Without a message, a client asks again after this time, because another program can change the
-- number of permits without one.
local left = 30000
if not first and available <= 0 then
    left = -1
elseif first and first < NEVER then
    left = math.max(first - now, 0)
end
return { left, 1, '', rank, listens }
