-- Renews the leases of many locks and replies which of them their owners still hold.
--
-- KEYS[i]      a lock: a hash of owner to hold count
-- ARGV[3i-2]   the owner
-- ARGV[3i-1]   least time to live from now on, in milliseconds; never shortens it; 0: no change
-- ARGV[3i]     the hold count, written if it differs; empty: no change
-- reply[i]     1: renewed; 0: no owner holds it; -1: another owner holds it, or it is not a lock

-- require "renew"

return renew()
