-- Functions of the scripts of the read-write lock. The lock is a hash: the field `mode` is read or
-- write, each reader has a field with its hold count, and the field of the writer ends in `:write`.

-- require "kinds"
-- require "wrong_type"
-- require "tagged"
-- require "hold_left"

-- The largest number of readers, and of their holds, that a script looks at.
local MANY = 1000

-- The number of fields in which a script looks for an owner, or for data of another program. A lock
-- with a few fields is read as a whole, which is faster.
local SOME = 100
local FEW = 5

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

-- The error about a hash that has the field `mode`, and other data in place of owners.
local function no_owner()
    return redis.error_reply('WRONGTYPE lock: a hash whose field is not an owner')
end

-- The writer among these fields, or a reader, and its hold count; nil and an error if there is
-- none, or data of another program beside it: then the third value is true. The field of a writer
-- in a transaction of Redisson has its number after `:write`.
local function owner_in(fields, is_writer)
    local owner, held
    for i = 1, #fields, 2 do
        local field, count = fields[i], fields[i + 1]
        if field ~= 'mode' then
            if not (is_owner(field) and is_count(count)) then
                return nil, no_owner(), true
            end
            if not owner
                and is_writer == (string.find(field .. ':', ':write:', 1, true) ~= nil) then
                owner, held = field, count
            end
        end
    end
    return owner, held or no_owner(), false
end

-- The same, of a lock that may have very many fields: then it looks at some of them.
local function owner_of(lock, is_writer)
    if redis.call('hlen', lock) <= FEW then
        return owner_in(redis.call('hgetall', lock), is_writer)
    end
    local cursor = '0'
    while true do
        local found = redis.pcall('hscan', lock, cursor, 'count', SOME)
        if found.err then
            -- The user may not run it.
            found = { '0', redis.call('hgetall', lock) }
        end
        local owner, count, is_data = owner_in(found[2], is_writer)
        cursor = found[1]
        if owner or is_data or cursor == '0' then
            return owner, count
        end
    end
end

-- How long the longest lease of this reader lasts, in milliseconds; 0 if all have ended; nil if
-- that is not known: a cluster is moving the slot.
local function lease_left(lock, reader, count)
    local longest = 0
    for hold = 1, count do
        local left = hold_left(lock, reader, hold)
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
-- possible one that lives; nil if the hash has data of another program in their place. The fourth
-- is one that lives and is of Redisson, if there is one.
local function readers_left(lock)
    local found = redis.pcall('hscan', lock, 0, 'count', MANY)
    if found.err then
        return nil, false, ''
    end
    local foreign
    local fields, is_whole = found[2], found[1] == '0'
    local _, _, has_data = owner_in(fields, false)
    if has_data then
        return nil, false, nil
    end
    local longest, looked_at, seen, one = 0, 0, {}, nil
    for i = 1, #fields, 2 do
        local reader, count = fields[i], tonumber(fields[i + 1])
        if reader ~= 'mode' and not string.find(reader, ':write$') then
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
    one = one or seen[1]
    if is_whole then
        return one and longest, false, one, foreign
    elseif longest == 0 and one then
        redis.call('hdel', lock, unpack(seen))
        -- Without a reader, the lock is free.
        if redis.call('hlen', lock) == 1 then
            return 0, false, one
        end
        return nil, true, one
    end
    return nil, false, one or ''
end

-- Deletes a lock of readers if none of them lives: then true. Otherwise the lock lasts as long as
-- the longest lease of a reader. The second value is true if the search for it is not over. The
-- third is one of the readers, and the fourth one of Redisson, if there is one.
local function end_if_unread(lock)
    local left, goes_on, reader, foreign = readers_left(lock)
    if left == 0 then
        redis.call('del', lock)
        return true
    end
    if left then
        redis.call('pexpire', lock, left)
    end
    return false, goes_on, reader, foreign
end
