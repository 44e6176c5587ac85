-- Acquires the write lock of a read-write lock for one owner, with hold count 1.
--
-- KEYS[1]  the lock: see shared/read_write.lua
-- ARGV[1]  fields of the writer, separated by spaces: the field for this grant, then those that
--          earlier copies of this request used, whose replies were lost
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the client
-- ARGV[4]  if the caller waits: for how many milliseconds readers of other clients leave the lock
--          to it; else 0
-- reply    nil: the owner holds the lock; { PTTL of the lock (-1: no expiry) or earlier time to
--          request it again, 1, the writer or nothing }: other owners hold it, or it is the turn of
--          readers. An error, without any change, if the key has another type or form
--
-- If an earlier copy of this request acquired the lock, its field is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

local lock, lease, waits = KEYS[1], ARGV[2], waits_key(KEYS[1])
local owner = string.match(ARGV[1], '%S+')

if redis.call('exists', lock) == 1 or exists(waits) then
    local mode, failure = mode_of(lock)
    if failure then
        return failure
    end
    if mode == 'write' then
        for name in string.gmatch(ARGV[1], '%S+') do
            if redis.call('hexists', lock, name) == 1 then
                redis.call('hset', lock, owner, '1')
                if name ~= owner then
                    redis.call('hdel', lock, name)
                end
                if redis.call('pttl', lock) < tonumber(lease) then
                    redis.call('pexpire', lock, lease)
                end
                return nil
            end
        end
        return { redis.call('pttl', lock), 1, (writer_of(lock)) }
    end
    local left
    local is_free, goes_on = not mode, false
    if mode == 'read' and redis.pcall('hexists', waits, 'search') == 1 then
        is_free, goes_on = end_if_unread(lock)
        if not goes_on then
            redis.pcall('hdel', waits, 'search')
        end
    end
    if not is_free then
        left = goes_on and 1 or redis.call('pttl', lock)
    else
        local turn = tonumber(redis.pcall('hget', waits, 'turn') or '0')
        if turn > 0 and turn > now_millis() then
            left = turn - now_millis()
        end
    end
    if left then
        local wish = tonumber(ARGV[4])
        if wish > 0 then
            local wish_ends = string.format('%.0f', now_millis() + wish)
            note_wait(lock, wish, 'writer', owner, 'writer_until', wish_ends)
            -- The wish has to be repeated before it ends.
            local again = math.floor(wish / 2)
            left = left < 0 and again or math.min(left, again)
        end
        return { left, 1, '' }
    end
    local writer = redis.pcall('hget', waits, 'writer')
    if redis.pcall('hexists', waits, 'turn') == 1 then
        -- It is over, and some readers have not come. Other clients that wait repeat their notes.
        redis.pcall('del', waits)
    elseif type(writer) == 'string' and is_of(writer, ARGV[3]) then
        redis.pcall('hdel', waits, 'writer', 'writer_until')
    end
end

redis.call('hset', lock, 'mode', 'write', owner, '1')
return set_lease(lock, lease)
