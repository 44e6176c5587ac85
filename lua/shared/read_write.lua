-- Functions of the scripts of the read-write lock. The lock is a hash: the field `mode` is read or
-- write, each reader has a field with its hold count, and the field of the writer ends in `:write`.

-- The longest time that a client has for its turn, in milliseconds.
local TURN = 100
-- The largest number of readers, and of their holds, that a script looks at.
local MANY = 1000

-- The key of one hold of a reader. Its time to live is the lease of that hold. Clients of this
-- library have one for each grant.
local function timeout_key(lock, reader, hold)
    return tagged(lock) .. ':' .. reader .. ':rwlock_timeout:' .. (hold or 1)
end

-- The hash of the clients that wait, which exists only while clients compete. What it says decides
-- about their order, never about exclusion:
--
-- writer, writer_until   the field that a waiting writer wants, and until when that is believed
-- a client's id          its reader waits: the name of its last request
-- turn                   until when only readers may acquire a free lock
-- search                 set if a script has to go on looking for a reader that lives
--
-- | lock          | of these notes | a reader of another client | a writer of another client |
-- |---------------|----------------|----------------------------|----------------------------|
-- | free          | none           | acquires it                | acquires it                |
-- | free          | writer         | is refused                 | acquires it                |
-- | free          | turn, or both  | acquires it                | is refused                 |
-- | with readers  | none           | acquires it                | is refused (1)             |
-- | with readers  | writer         | is refused                 | is refused (1)             |
-- | with readers  | turn, or both  | acquires it                | is refused (1)             |
-- | with a writer | any            | is refused                 | is refused                 |
--
-- 1. With the note `search`, it goes on with the search. If no reader lives, the lock is free.
--
-- A refused client that waits notes that. The note ends when the client acquires the lock or gives
-- up. The release of a writer begins the turn of readers, if some have noted that they wait. The
-- turn ends when the lock is free and none of their notes is left. If some of these readers do not
-- come, it ends after TURN, and the next writer removes their notes. The release of the last reader
-- begins the turn of the writer: its note lasts for TURN at most.
local function waits_key(lock)
    return 'leasehold_rwlock:' .. tagged(lock)
end

-- The channel for releases.
local function read_write_channel(lock)
    return 'redisson_rwlock:' .. tagged(lock)
end

-- True if this field belongs to an owner of this client.
local function is_of(field, client)
    return string.sub(field, 1, #client + 1) == client .. ':'
end

-- True if the key exists. A cluster that moves the slot refuses a key that is not there.
local function exists(key)
    return redis.pcall('exists', key) == 1
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
-- true as second value: the next call looks at others.
local function readers_left(lock)
    local found = redis.pcall('hscan', lock, 0, 'count', MANY)
    if found.err then
        return nil
    end
    local fields, is_whole = found[2], found[1] == '0'
    local longest, looked_at, seen = 0, 0, {}
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
                return nil
            end
            longest = math.max(longest, left)
            seen[#seen + 1] = reader
        end
    end
    if is_whole then
        return longest
    elseif longest == 0 and #seen > 0 then
        redis.call('hdel', lock, unpack(seen))
        return nil, true
    end
end

-- Notes in the hash of the clients that wait. It is kept for at least `millis` milliseconds.
-- pcall: what it says decides about the order of clients only.
local function note_wait(lock, millis, ...)
    local waits = waits_key(lock)
    redis.pcall('hset', waits, ...)
    local left = redis.pcall('pttl', waits)
    if type(left) == 'number' and left < millis then
        redis.pcall('pexpire', waits, millis)
    end
end

-- Deletes a lock of readers if none of them lives: then true. Otherwise the lock lasts as long as
-- the longest lease of a reader. If the search for it is not over, notes that, and returns true as
-- second value.
local function end_if_unread(lock)
    local left, goes_on = readers_left(lock)
    if left == 0 then
        redis.call('del', lock)
        return true
    end
    if left then
        redis.call('pexpire', lock, left)
    elseif goes_on then
        note_wait(lock, redis.call('pttl', lock) + 5000, 'search', '1')
    end
    return false, goes_on
end

-- True if clients have noted that their readers wait.
local function do_readers_wait(waits)
    local notes = redis.pcall('hlen', waits)
    if type(notes) == 'table' or notes == 0 then
        return false
    end
    for _, other in ipairs({ 'writer', 'writer_until', 'turn', 'search' }) do
        notes = notes - redis.call('hexists', waits, other)
    end
    return notes > 0
end

-- Ends the turn of readers, unless some of those that have waited have not come yet. Called when
-- the lock is free.
local function end_turn(waits)
    if redis.pcall('hexists', waits, 'turn') == 1 and not do_readers_wait(waits) then
        redis.pcall('hdel', waits, 'turn')
    end
end

-- Sets the lease of a new hash. If Redis refuses, no lock must remain without one.
local function set_lease(lock, lease)
    local granted = redis.pcall('pexpire', lock, lease)
    if granted ~= 1 then
        redis.call('del', lock)
        return granted
    end
end
