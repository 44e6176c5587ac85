-- Acquires a permit of a semaphore, under an id that the client has chosen. Before that, permits
-- whose leases have ended become available, at most 1,000 of them.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  ids of 16 bytes each: the id of this permit, then the ids that earlier copies of this
--          request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the channel for permits that become available
-- ARGV[4]  the place of this client in the line (shared/permit_line.lua); empty if it has none
-- ARGV[5]  1 if the caller waits if it gets no permit, else 0
-- ARGV[6]  the command that publishes: publish or spublish
-- reply    nil: the permit is leased. { milliseconds, 1, '', rank, listens }: no permit is
--          available for this client, and the first lease ends in this time (30,000: no lease ends;
--          -1: no permit is leased or available). The rank is the number of clients before this one
--          in the line. It and what follows are absent if this client is in no line. Listens is 1
--          if it also listens to the channel, else 0. An error, without any change, if a key has
--          another type or form
--
-- A refused caller that waits and has a place enters the line. One that does not wait leaves it,
-- and may take a permit that is reserved.
--
-- If an earlier copy of this request acquired a permit, that permit gets the id of this copy. A
-- copy that Redis executes later then cannot be taken for the holder of this permit.

-- require "now_millis"
-- require "permits"
-- require "line_of"

-- The end of a lease that does not end, as Redisson writes it.
local NEVER = 922337203685477

local key, leases, ids = KEYS[1], KEYS[2], ARGV[1]
local place, waits, publish = ARGV[4], ARGV[5] == '1', ARGV[6]
local id = string.sub(ids, 1, 16)
local available, failure = number_of(key)
if failure then
    return failure
end
available = available or 0

local now = now_millis()
local ends = now + ARGV[2]
for at = 1, #ids, 16 do
    local earlier = string.sub(ids, at, at + 15)
    local score = redis.pcall('zscore', leases, earlier)
    if type(score) == 'table' then
        return wrong_type('leases', leases, 'sorted set', score)
    elseif score then
        local written = redis.pcall('zadd', leases, text_of(math.max(ends, score)), id)
        if type(written) == 'table' then
            return written
        end
        if earlier ~= id then
            redis.call('zrem', leases, earlier)
        end
        return nil
    end
end

local expired = redis.call('zrangebyscore', leases, '-inf', text_of(now), 'limit', 0, 1000)
if #expired == 0 and available > 0 and redis.pcall('exists', line_of(key)) == 0 then
    local left = lease_permit(key, leases, id, ends)
    return type(left) == 'table' and left or nil
end

-- require "permit_line"

if #expired > 0 then
    -- First, because Redis refuses this command if it is short of memory or of permissions.
    local value = redis.pcall('incrby', key, #expired)
    if type(value) == 'table' then
        return value
    end
    local removed = redis.pcall('zrem', leases, unpack(expired))
    if removed ~= #expired then
        redis.call('decrby', key, #expired)
        return removed
    end
    available = value
    if available > 0 then
        notify_free(key, ARGV[3], available, publish)
    end
end

local head = head_of(key)
if waits and may_take(key, head, place, 1, available, publish) or not waits and available > 0 then
    local left = lease_permit(key, leases, id, ends)
    if type(left) == 'table' then
        return left
    end
    leave_permits(key, head, place, left, publish)
    return nil
end

local rank, listens
if place ~= '' and waits then
    rank, listens = await_permits(key, head, place, 1, available, publish)
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
