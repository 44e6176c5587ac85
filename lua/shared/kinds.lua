-- Kinds of locks that have the same form: a hash of owner to hold count.

-- `<client uuid>:<number>`, and what may follow, as in `:write`.
local OWNER_ID =
    '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+[:%w]*$'

-- True for an owner id as this library and Redisson write it. Any other field is data of another
-- program.
local function is_owner(field)
    return string.find(field, OWNER_ID)
end

-- True for a hold count. Most are 1, and a pattern takes longer.
local function is_count(value)
    return value == '1' or string.find(value, '^[1-9]%d*$') and tonumber(value) <= 4294967295
end

-- True for an owner of this library: the UUID of its client has version 8, and those of Redisson
-- have version 4.
local function is_of_this_library(owner)
    return string.sub(owner, 15, 15) == '8'
end

-- True for an owner of a fair lock of this library.
local function is_of_fair_lock(owner)
    return string.find(owner, ':0%d')
end

-- The error of a request for the lock in KEYS[i], which is in use as a lock of another kind.
local function mixed_kinds(i, used, requested)
    local uses = ': it is in use as a ' .. used .. ' lock, and this call is for a '
    return redis.error_reply('WRONGTYPE kind ' .. i .. uses .. requested .. ' lock')
end
