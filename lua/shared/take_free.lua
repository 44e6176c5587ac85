-- The beginning of take_permits.lua, if enough permits are free and no client waits. It is before the
-- functions of the line, because Lua makes them in each call.
if redis.pcall('exists', line_of(KEYS[1])) == 0 and not recorded(KEYS[2], ARGV[3], ARGV[4]) then
    local free, permits = number_of(KEYS[1]), tonumber(ARGV[1])
    if free and free >= permits + ARGV[2] then
        local times = math.min(1 + ARGV[8], math.floor((free - ARGV[2]) / permits))
        local taken = permits * times
        return once(KEYS[2], ARGV[3], ARGV[4], taken, 'incrby', KEYS[1], -taken)
    end
end

