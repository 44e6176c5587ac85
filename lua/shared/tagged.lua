-- The hash tag of the names beside a lock, as Redisson makes it.
local function tagged(lock)
    return string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
end
