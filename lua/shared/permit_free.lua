-- The beginning of permit_acquire.lua, for the first copy of a request: a permit is available, no
-- lease has ended, and no client waits. It is before the functions of the line, because Lua makes
-- them in each call.
if #ARGV[1] == 16 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    local available, now = available_in(KEYS[1]), now_millis()
    local ended = redis.pcall('zcount', KEYS[2], '-inf', text_of(now))
    if available and available > 0 and ended == 0 and not redis.call('zscore', KEYS[2], ARGV[1]) then
        local left = lease_permit(KEYS[1], KEYS[2], ARGV[1], now + ARGV[2])
        return type(left) == 'table' and left or nil
    end
end

