-- The beginning of permit_release.lua, for one permit with one id, if no client waits. It is before
-- the functions of the line, because Lua makes them in each call.
if #KEYS == 2 and #ARGV[1] == 16 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    local ends = redis.pcall('zscore', KEYS[2], ARGV[1])
    if type(ends) == 'string' then
        local available = end_lease(KEYS[1], KEYS[2], ARGV[1], ends)
        if type(available) == 'table' then
            return available
        end
        -- pcall: the permit is free even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[3], ARGV[2], text_of(available))
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

