-- Writes the hold count of a lock that the owner must already hold: a nested acquire or its release.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- ARGV[1]  the names that the owner may have there, with spaces between
-- ARGV[2]  hold count from now on, 1 or more
-- ARGV[3]  lease in milliseconds that must be left at least; never shortens what is left; 0: as it is
-- ARGV[4]  the name that the owner has from now on; empty: the one that it has
-- reply    1: written; 0: the lock is gone; -1: somebody else holds it
--
-- A new name is given where an earlier copy of this or another recount had no reply: whenever that
-- copy comes, it finds nothing to write to. If the new name is there already, an earlier copy of this
-- request has given it, and later ones may have counted on: the count is left alone.
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
