-- The beginning of add_permits.lua, if no client waits. It is before the functions of the line,
-- because Lua makes them in each call.
if redis.pcall('exists', line_of(KEYS[1])) == 0 and not recorded(KEYS[2], ARGV[2], ARGV[3]) then
    local free = number_of(KEYS[1])
    local sum = free and free + ARGV[1]
    if sum and sum <= 2147483647 and sum >= -2147483648 then
        local reply = once(KEYS[2], ARGV[2], ARGV[3], sum, 'incrby', KEYS[1], ARGV[1])
        if reply == sum then
            -- pcall: the permits are free even if the user lacks permission to publish.
            redis.pcall(ARGV[6], ARGV[5], string.format('%.0f', sum))
        end
        return reply
    end
end

