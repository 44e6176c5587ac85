-- Functions of the scripts of the read-write lock. The lock is a hash: the field `mode` is read or
-- write, each reader has a field with its hold count, and the field of the writer ends in `:write`.

-- require "kinds"
-- require "wrong_type"
-- require "tagged"
-- require "timeout_key"

-- The largest number of readers, and of their holds, that a script looks at.
local MANY = 1000

-- The channel for releases.
local function read_write_channel(lock)
    return 'redisson_rwlock:' .. tagged(lock)
end

-- Returns read or write; nil if the lock is free; nil and an error if the key is no such lock.
local function mode_of(lock)
    local mode = redis.pcall('hget', lock, 'mode')
    if mode == 'read' or mode == 'write' then
        return mode
    end
    if type(mode) == 'table' then
        return nil, wrong_type('lock', lock, 'hash', mode)
    end
    local fields = redis.call('hlen', lock)
    if fields == 0 then
        return nil
    end
    local what = fields == 1 and not mode and 'lock' or 'hash'
    return nil, redis.error_reply('WRONGTYPE lock: a ' .. what .. ' that is not a read-write lock')
end

-- The data of another program can look like a lock.
local function is_count(value)
    return string.find(value, '^[1-9]%d*$') and tonumber(value) <= 4294967295
end

-- The field of the writer, and its hold count; an empty string without a writer.
local function writer_of(lock)
    -- Beside the writer, only its own reader is there.
    local fields = redis.call('hgetall', lock)
    for i = 1, #fields, 2 do
        if string.find(fields[i], ':write$') and is_count(fields[i + 1]) then
            return fields[i], fields[i + 1]
        end
    end
    return '', '0'
end

-- The field of a reader, and its hold count; nil without a reader.
local function reader_of(lock)
    local fields = redis.call('hgetall', lock)
    for i = 1, #fields, 2 do
        local is_reader = fields[i] ~= 'mode' and not string.find(fields[i], ':write$')
        if is_reader and is_count(fields[i + 1]) then
            return fields[i], fields[i + 1]
        end
    end
end

-- How long the longest lease of this reader lasts, in milliseconds; 0 if all have ended; nil if a
-- cluster that moves the slot refuses a key that is not there.
local function lease_left(lock, reader, count)
    local longest = 0
    for hold = 1, count do
        local left = redis.pcall('pttl', timeout_key(lock, reader, hold))
        if type(left) == 'table' then
            return nil
        end
        longest = math.max(longest, left)
    end
    return longest
end

-- How long the longest lease of a reader lasts, in milliseconds; 0 if all have ended; nil if that
-- is not known: there are too many readers or holds, or a cluster is moving the slot.
--
-- If there are too many, and none of those that it has looked at lives, removes these and returns
-- true as second value: the next call looks at others. The third value is one of the readers, if
-- possible one that lives. The fourth is one that lives and is of Redisson, if there is one.
local function readers_left(lock)
    local found = redis.pcall('hscan', lock, 0, 'count', MANY)
    if found.err then
        return nil, false, ''
    end
    local foreign
    local fields, is_whole = found[2], found[1] == '0'
    local longest, looked_at, seen, one = 0, 0, {}, nil
    for i = 1, #fields, 2 do
        local reader, count = fields[i], tonumber(fields[i + 1])
        if count and not string.find(reader, ':write$') then
            looked_at = looked_at + count
            if looked_at > MANY then
                is_whole = false
                break
            end
            local left = lease_left(lock, reader, count)
            if not left or (left > 0 and not is_whole) then
                return nil, false, reader
            elseif left > 0 then
                one = reader
                foreign = not is_of_this_library(reader) and reader or foreign
            end
            longest = math.max(longest, left)
            seen[#seen + 1] = reader
        end
    end
    one = one or seen[1] or ''
    if is_whole then
        return longest, false, one, foreign
    elseif longest == 0 and #seen > 0 then
        redis.call('hdel', lock, unpack(seen))
        return nil, true, one
    end
    return nil, false, one
end

-- Deletes a lock of readers if none of them lives: then true. Otherwise the lock lasts as long as
-- the longest lease of a reader. The second value is true if the search for it is not over. The
-- third is one of the readers.
local function end_if_unread(lock)
    local left, goes_on, reader = readers_left(lock)
    if left == 0 then
        redis.call('del', lock)
        return true
    end
    if left then
        redis.call('pexpire', lock, left)
    end
    return false, goes_on, reader
end
