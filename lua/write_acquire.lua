-- Acquires the write lock of a read-write lock for one owner, with hold count 1.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  fields of the writer, separated by spaces: the field for this grant, then those that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the place of this client in the line (shared/line.lua); empty if the client wants none
-- ARGV[4]  1 if the caller has a place and waits if the lock is held, else 0
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    nil: the owner holds the lock; { milliseconds, 1, owner, rank } as of acquire.lua: other
--          owners hold the lock, or it is reserved. The owner is the writer, or a reader. An
--          error, without any change, if the key has another type or form
--
-- If an earlier copy of this request acquired the lock, its field is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

-- require "line_of"
-- require "set_lease"

local lock, lease = KEYS[1], ARGV[2]
local owner = string.match(ARGV[1], '%S+')

-- A lock that is free and has no line. pcall: the user may not use the line, or a cluster is moving
-- the slot.
local existing = redis.pcall('exists', lock, line_of(lock))
if existing == 0 then
    redis.call('hset', lock, 'mode', 'write', owner, '1')
    return set_lease(lock, lease)
end

-- require "line"
-- require "copies"
-- require "read_write"
-- require "refuse"

local caller = { place = ARGV[3], waits = ARGV[4] == '1', role = 0, publish = ARGV[5] }

if type(existing) == 'table' then
    existing = redis.call('exists', lock)
    caller.place, caller.waits = '', false
end
if existing > 0 then
    local mode, failure = mode_of(lock)
    if failure then
        return failure
    end
    if mode == 'write' then
        local older = held_name(lock, ARGV[1])
        if older then
            return take_over(lock, older, owner, lease)
        end
        return refuse(lock, redis.call('pttl', lock), writer_of(lock), caller)
    elseif mode then
        local left, goes_on, reader, foreign = readers_left(lock)
        if left ~= 0 then
            left = goes_on and 1 or left or redis.call('pttl', lock)
            -- The client has to listen for the release of a reader of Redisson.
            return refuse(lock, left, foreign or reader, caller)
        end
        redis.call('del', lock)
    end
    local reserved = caller.waits and reserved_for(lock, caller.place) or 0
    if reserved > 0 then
        return refuse(lock, reserved, '', caller)
    end
end

redis.call('hset', lock, 'mode', 'write', owner, '1')
local failure = set_lease(lock, lease)
if existing > 0 and caller.place ~= '' and not failure then
    leave_line(lock, caller.place)
end
return failure
