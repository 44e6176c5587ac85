-- The beginning of acquire.lua, for one lock without tokens that is free and has no line. It is
-- before the other functions, because Lua makes them in each call.
--
-- pcall: the user may not use the line, or a cluster is moving the slot.
if #KEYS == 1 and ARGV[5] == '' and redis.pcall('exists', KEYS[1], line_of(KEYS[1])) == 0 then
    redis.call('hset', KEYS[1], string.match(ARGV[1], '%S+'), '1')
    -- If Redis refuses the expiry, no lock must remain without one.
    local granted = redis.pcall('pexpire', KEYS[1], ARGV[2])
    if granted == 1 then
        return nil
    end
    redis.call('del', KEYS[1])
    return granted
end

