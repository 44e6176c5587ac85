-- Acquires the read lock of a read-write lock for one owner, with hold count 1.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  names of the owner, separated by spaces: the name for this grant, then the names that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the client
-- ARGV[4]  1 if the caller waits, else 0
-- ARGV[5]  the field of the writer, if the caller holds the write lock; else empty
-- reply    nil: the owner holds the lock; { PTTL of the lock (-1: no expiry) or earlier time to
--          request it again, 1, the writer or nothing }: another owner holds the write lock, or
--          waits for it. An error, without any change, if the key has another type or form
--
-- If an earlier copy of this request acquired the lock, its name is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

local lock, lease = KEYS[1], ARGV[2]
local owner = string.match(ARGV[1], '%S+')

local mode, older
local waits = waits_key(lock)
if ARGV[5] ~= '' or redis.call('exists', lock) == 1 or exists(waits) then
    local failure
    mode, failure = mode_of(lock)
    if failure then
        return failure
    end
    if mode then
        for name in string.gmatch(ARGV[1], '%S+') do
            if not older and redis.call('hexists', lock, name) == 1 then
                older = name
            end
        end
    end
    if ARGV[5] ~= '' then
        if not older and redis.call('hexists', lock, ARGV[5]) == 0 then
            return { redis.call('pttl', lock), 1, (writer_of(lock)) }
        end
    elseif not older and mode == 'write' then
        local left = redis.call('pttl', lock)
        if ARGV[4] == '1' then
            note_wait(lock, left + 5000, ARGV[3], owner)
        end
        return { left, 1, (writer_of(lock)) }
    elseif not older then
        local writer = redis.pcall('hget', waits, 'writer')
        if type(writer) == 'string' and not is_of(writer, ARGV[3]) then
            local now = now_millis()
            local left = tonumber(redis.call('hget', waits, 'writer_until') or '0') - now
            local turn = tonumber(redis.call('hget', waits, 'turn') or '0')
            if left > 0 and turn <= now then
                if ARGV[4] == '1' then
                    note_wait(lock, left + 5000, ARGV[3], owner)
                end
                if mode then
                    left = math.min(left, math.max(redis.call('pttl', lock), 1))
                end
                return { left, 1, '' }
            end
        end
    end
    redis.pcall('hdel', waits, ARGV[3])
end

-- First, because Redis may refuse it: nothing is changed then.
local hold = timeout_key(lock, owner)
redis.call('set', hold, '1', 'px', lease)
local fields = mode and { owner, '1' } or { 'mode', 'read', owner, '1' }
local written = redis.pcall('hset', lock, unpack(fields))
if type(written) == 'table' then
    redis.call('del', hold)
    return written
end
if older and older ~= owner then
    redis.call('hdel', lock, older)
    redis.pcall('del', timeout_key(lock, older))
end
if not mode then
    local refused = set_lease(lock, lease)
    if refused then
        redis.call('del', hold)
    end
    return refused
end
if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return nil
