-- Acquires the read lock or the write lock of a read-write lock for one owner, with hold count 1.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  fields of the owner, separated by spaces: the field for this grant, then those that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the place of this client in the line (shared/line.lua); empty if the client wants none
-- ARGV[4]  1 if the caller has a place and waits if the lock is held, else 0
-- ARGV[5]  read or write
-- ARGV[6]  for read: the field of the writer, if the caller holds the write lock; else empty
-- ARGV[7]  the command that publishes: publish or spublish
-- reply    nil: the owner holds the lock; { milliseconds, 1, owner, rank } as of acquire.lua: other
--          owners hold the lock, a writer is before this reader in the line, or the lock is
--          reserved. The owner is the writer, or a reader. An error, without any change, if the key
--          has another type or form
--
-- A reader that acquires the lock calls the next client in the line if that is a reader, too.
--
-- If an earlier copy of this request acquired the lock, its field is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

-- require "line_of"
-- require "set_lease"

local lock, lease, wanted, within = KEYS[1], ARGV[2], ARGV[5], ARGV[6]
local owner = string.match(ARGV[1], '%S+')

-- A lock that is free and has no line. pcall: the user may not use the line, or a cluster is moving
-- the slot.
local existing = redis.pcall('exists', lock, line_of(lock))
if existing == 0 and wanted == 'write' then
    redis.call('hset', lock, 'mode', 'write', owner, '1')
    return set_lease(lock, lease)
end

-- require "timeout_key"

-- Adds the owner to the lock, which is free if `is_first` is true. Changes nothing and returns the
-- error if Redis refuses a part of that.
local function add_owner(is_first)
    local hold = wanted == 'read' and timeout_key(lock, owner)
    if hold then
        redis.call('set', hold, '1', 'px', lease)
    end
    local fields = is_first and { 'mode', wanted, owner, '1' } or { owner, '1' }
    local refusal = redis.pcall('hset', lock, unpack(fields))
    if type(refusal) ~= 'table' then
        refusal = is_first and set_lease(lock, lease) or nil
    end
    if refusal and hold then
        redis.call('del', hold)
    end
    return refusal
end

if existing == 0 and within == '' then
    return add_owner(true)
end

-- require "copies"
-- require "read_write"

local place, waits, publish = ARGV[3], ARGV[4] == '1', ARGV[7]
if type(existing) == 'table' then
    existing = redis.call('exists', lock)
    place, waits = '', false
end
local mode, failure = mode_of(lock)
local older = mode and held_name(lock, ARGV[1])
if failure then
    return failure
elseif older then
    if wanted == 'read' then
        redis.call('set', timeout_key(lock, owner), '1', 'px', lease)
        if older ~= owner then
            redis.pcall('del', timeout_key(lock, older))
        end
    end
    return take_over(lock, older, owner, lease)
end
local is_within = mode and within ~= '' and redis.call('hexists', lock, within) == 1
local is_joining = mode == 'read' and wanted == 'read'
local left = (mode == 'write' or is_joining) and redis.call('pttl', lock)

-- A client renews its lease when one part of it is left, of this many.
local LEASE_PARTS = 3

-- An owner that has the lock, if all fields are owners. A writer that waits for readers looks for
-- them below. A reader looks, too, before it changes a hash that may be data of another program:
-- one without a lease or a reader, or a small one whose time to live is not as a reader has set it.
-- With many readers, that would take longer than the rest.
local function may_be_data()
    local fields = redis.call('hlen', lock)
    local is_lease = left <= tonumber(lease) and left >= lease / LEASE_PARTS
    return left < 0 or fields == 1 or fields <= FEW and not is_lease
end
local holder, no_holder
if mode == 'write' or is_joining and may_be_data() then
    holder, no_holder = owner_of(lock, mode == 'write')
end
if no_holder and not holder then
    return no_holder
end

-- Acquires a lock that is free, or beside the owners that it has.
local function join()
    local refusal = add_owner(not mode)
    if not refusal and mode and left < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return refusal
end

-- Readers hold the lock, and it has no line.
if existing == 1 and is_joining and within == '' then
    return join()
end

-- require "line"

-- The reply to a caller that does not acquire the lock: it enters the line if it waits, and leaves
-- it if it does not. A writer of this library calls the next client when it releases the lock.
local function refuse(millis, owned_by)
    local rank
    if waits then
        rank = enter_line(lock, place, wanted == 'read' and READER or 0)
    elseif place ~= '' and leave_line(lock, place) then
        if not (is_of_this_library(owned_by) and string.find(owned_by, ':write$')) then
            call_next(lock, publish)
        end
    end
    return { millis, 1, owned_by, rank }
end

-- The lock is free, or readers hold it. Returns the reply to a reader that has to let others go
-- first; nil if it may read.
local function let_others_go_first()
    if not mode then
        local reserved = place ~= '' and reserved_for(lock, place, publish) or 0
        return reserved > 0 and refuse(reserved, '') or nil
    end
    local line = line_of(lock)
    local _, called = first_in(line)
    local is_over = called and time_left(called) == 0
    -- The writer in the first place may have stopped. Those call it that do not wait, or have
    -- waited for a while.
    if is_over or not called and (not waits or redis.pcall('zrank', line, place)) then
        call_next(lock, publish)
    end
    local first, is_reader
    first, called, is_reader = first_in(line)
    if not first or first == place or called and is_among_called(line, place, called) then
        return nil
    elseif called then
        local waits_for_call = place ~= '' or not is_reader
        return waits_for_call and refuse(math.ceil(time_left(called) / 1000), '') or nil
    elseif is_reader then
        return nil
    end
    return refuse(left, owner_of(lock, false) or '')
end

local reply
if within ~= '' then
    reply = not is_within and { left or -2, 1, holder or '' }
elseif mode == 'write' then
    reply = refuse(left, holder)
elseif wanted == 'write' then
    if mode then
        local longest, goes_on, reader, foreign = readers_left(lock)
        if not reader then
            return no_owner()
        elseif longest ~= 0 then
            -- The client has to listen for the release of a reader of Redisson.
            longest = goes_on and 1 or longest or redis.call('pttl', lock)
            return refuse(longest, foreign or reader)
        end
        redis.call('del', lock)
        mode = nil
    end
    local reserved = place ~= '' and reserved_for(lock, place, publish) or 0
    reply = reserved > 0 and refuse(reserved, '')
elseif existing > (mode and 1 or 0) then
    reply = let_others_go_first()
end
reply = reply or join()
if reply then
    return reply
end
if existing > (mode and 1 or 0) then
    if place ~= '' then
        leave_line(lock, place)
    end
    if wanted == 'read' and mode ~= 'write' then
        call_next(lock, publish, true)
    end
end
return nil
