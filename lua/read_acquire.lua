-- Acquires the read lock of a read-write lock for one owner, with hold count 1.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  names of the owner, separated by spaces: the name for this grant, then the names that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the place of this client in the line (shared/line.lua); empty if the client wants none
-- ARGV[4]  1 if the caller has a place and waits if the lock is held, else 0
-- ARGV[5]  the field of the writer, if the caller holds the write lock; else empty
-- ARGV[6]  the command that publishes: publish or spublish
-- reply    nil: the owner holds the lock; { milliseconds, 1, owner, rank } as of acquire.lua: another
--          owner holds the write lock, a writer is before this client in the line, or the lock is
--          reserved. The owner is the writer, or a reader. An error, without any change, if the key
--          has another type or form
--
-- A reader that acquires the lock calls the next client in the line if that is a reader, too.
--
-- If an earlier copy of this request acquired the lock, its name is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

-- require "line_of"
-- require "set_lease"
-- require "timeout_key"

local lock, lease = KEYS[1], ARGV[2]
local owner = string.match(ARGV[1], '%S+')

-- Adds the reader to the lock, which is free if `is_first` is true. Changes nothing and returns the
-- error if Redis refuses a part of that.
local function add_reader(is_first)
    local hold = timeout_key(lock, owner)
    redis.call('set', hold, '1', 'px', lease)
    local fields = is_first and { 'mode', 'read', owner, '1' } or { owner, '1' }
    local refusal = redis.pcall('hset', lock, unpack(fields))
    if type(refusal) ~= 'table' then
        refusal = is_first and set_lease(lock, lease) or nil
    end
    if refusal then
        redis.call('del', hold)
    end
    return refusal
end

-- A lock that is free and has no line. pcall: the user may not use the line, or a cluster is moving
-- the slot.
local existing = redis.pcall('exists', lock, line_of(lock))
if existing == 0 and ARGV[5] == '' then
    return add_reader(true)
end

-- require "line"
-- require "copies"
-- require "read_write"
-- require "refuse"

local caller = { place = ARGV[3], waits = ARGV[4] == '1', role = READER, publish = ARGV[6] }

-- After how many milliseconds the client behind the first writer asks again, in case that writer is
-- dead.
local ASKED = 1000

-- True if the first client in the line is another one, and a writer.
local function is_behind_writer()
    local first, _, is_reader = first_in(line_of(lock))
    return first and first ~= caller.place and not is_reader
end

-- The lock is free, or readers hold it. Returns the reply to a caller that has to let others go
-- first; nil if it may read. `is_called` is true if this has called the first client.
local function let_others_go_first(mode, is_called)
    local reserved = 0
    if mode or caller.waits then
        reserved = reserved_for(lock, caller.place)
    end
    if not mode or not is_behind_writer() then
        return caller.waits and reserved > 0 and refuse(lock, reserved, '', caller) or nil
    elseif not is_called and reserved > 0 then
        return refuse(lock, reserved, '', caller)
    elseif not is_called then
        -- The writer may be dead. Those ask it that do not wait, or have waited for a while.
        if not caller.waits or redis.pcall('zrank', line_of(lock), caller.place) then
            call_first(lock, caller.publish)
            return let_others_go_first(mode, true)
        end
    end
    local reply = refuse(lock, redis.call('pttl', lock), reader_of(lock) or '', caller)
    if reply[4] == 1 then
        reply[1] = math.min(reply[1], ASKED)
    end
    return reply
end

if type(existing) == 'table' then
    existing = redis.call('exists', lock)
    caller.place, caller.waits = '', false
end
local mode, older
if existing > 0 or ARGV[5] ~= '' then
    local failure
    mode, failure = mode_of(lock)
    if failure then
        return failure
    end
    older = mode and held_name(lock, ARGV[1])
    if ARGV[5] ~= '' then
        if not older and redis.call('hexists', lock, ARGV[5]) == 0 then
            return { redis.call('pttl', lock), 1, (writer_of(lock)) }
        end
    elseif not older then
        local reply
        if mode == 'write' then
            reply = refuse(lock, redis.call('pttl', lock), writer_of(lock), caller)
        elseif existing > (mode and 1 or 0) then
            reply = let_others_go_first(mode)
        end
        if reply then
            return reply
        end
    end
end

local refusal = add_reader(not mode)
if refusal then
    return refusal
end
if older and older ~= owner then
    redis.call('hdel', lock, older)
    redis.pcall('del', timeout_key(lock, older))
end
if mode and redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
if existing > (mode and 1 or 0) then
    if caller.place ~= '' then
        leave_line(lock, caller.place)
    end
    if mode ~= 'write' then
        call_first(lock, caller.publish, true)
    end
end
return nil
