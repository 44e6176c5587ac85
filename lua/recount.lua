-- Writes the hold count of a lock that the owner already holds: a nested acquire or its release.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  names that the owner may have in the hash, separated by spaces
-- ARGV[2]  new hold count, 1 or more
-- ARGV[3]  least time to live from now on, in milliseconds; never shortens it; 0: no change
-- ARGV[4]  new name of the owner; empty: no change
-- reply    1: written; 0: no owner holds the lock; -1: another owner holds it
--
-- The caller passes a new name after a recount without a reply. If Redis executes that recount
-- later, it finds no hold under the old name and changes nothing. If the new name is there already,
-- an earlier copy of this request wrote it. Later requests may have changed the count since, so
-- this copy does not.
local new = ARGV[4] ~= '' and ARGV[4]
if not new or redis.call('hexists', KEYS[1], new) == 0 then
    local found
    for name in string.gmatch(ARGV[1], '%S+') do
        if not found and redis.call('hexists', KEYS[1], name) == 1 then
            found = name
        end
    end
    if not found then
        return redis.call('exists', KEYS[1]) * -1
    end
    redis.call('hset', KEYS[1], new or found, ARGV[2])
    if new then
        redis.call('hdel', KEYS[1], found)
    end
end
local lease = tonumber(ARGV[3])
if lease > 0 and redis.call('pttl', KEYS[1]) < lease then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return 1
