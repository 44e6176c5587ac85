-- Functions of the scripts of the read-write lock. The lock is a hash: the field `mode` is read or
-- write, each reader has a field with its hold count, and the field of the writer ends in `:write`.

-- The longest time that a client has for its turn, in milliseconds.
local TURN = 100
-- The largest number of holds of readers that a script looks at.
local MANY = 1000

-- The hash tag of the names beside the lock, as Redisson makes it.
local function tagged(lock)
    return string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
end

-- The key of one hold of a reader. Its time to live is the lease of that hold. Clients of this
-- library have one for each grant.
local function timeout_key(lock, reader, hold)
    return tagged(lock) .. ':' .. reader .. ':rwlock_timeout:' .. (hold or 1)
end

-- The hash of the clients that wait, which exists only while clients compete:
-- writer, writer_until   the field that a waiting writer wants, and until when that is believed
-- readers                set if a reader waits for the end of a write lock
-- turn                   until when only readers may acquire a free lock
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

-- How long the longest lease of a reader lasts, in milliseconds; 0 if all have ended; nil if that
-- is not known: there are too many, or a cluster is moving the slot.
local function readers_left(lock)
    if redis.call('hlen', lock) > MANY then
        return nil
    end
    local fields = redis.call('hgetall', lock)
    local longest, looked_at = 0, 0
    for i = 1, #fields, 2 do
        local reader, count = fields[i], tonumber(fields[i + 1])
        if count and not string.find(reader, ':write$') then
            looked_at = looked_at + count
            if looked_at > MANY then
                return nil
            end
            for hold = 1, count do
                -- pcall: a cluster that moves the slot refuses a key that is not there.
                local left = redis.pcall('pttl', timeout_key(lock, reader, hold))
                if type(left) == 'table' then
                    return nil
                end
                longest = math.max(longest, left)
            end
        end
    end
    return longest
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

-- Sets the lease of a new hash. If Redis refuses, no lock must remain without one.
local function set_lease(lock, lease)
    local granted = redis.pcall('pexpire', lock, lease)
    if granted ~= 1 then
        redis.call('del', lock)
        return granted
    end
end
