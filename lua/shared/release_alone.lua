-- The beginning of release.lua, for one lock that has no line. It is before the other functions,
-- because Lua makes them in each call. What does not release the lock here is tried again below.
--
-- pcall: the user may not use the line, or a cluster is moving the slot.
if #KEYS == 1 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    if redis.pcall('hdel', KEYS[1], ARGV[1]) == 1 then
        -- pcall: the lock is released even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[3], ARGV[2], '0')
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

