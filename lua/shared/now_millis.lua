-- The time of the server in milliseconds since 1970.
local function now_millis()
    local now = redis.call('time')
    return now[1] * 1000 + math.floor(now[2] / 1000)
end
