-- Sets the lease of a new hash. If Redis refuses, no lock must remain without one: then returns the
-- error.
local function set_lease(lock, lease)
    local granted = redis.pcall('pexpire', lock, lease)
    if granted ~= 1 then
        redis.call('del', lock)
        return granted
    end
end
