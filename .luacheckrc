-- What a script finds inside Redis: Lua 5.1, and these.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
-- A file in shared/ is put before the scripts that use its function.
files["lua/shared"] = { ignore = { "211" }, read_globals = {
    "now_millis", "wrong_type", "tagged", "holder_of", "is_of_this_library",
    -- shared/line.lua
    "RESERVED", "KEPT", "REMOVED", "line_of", "now_micros", "first_in", "time_left", "call_first",
    "enter_line", "leave_line", "may_use",
    -- shared/once.lua, shared/permits.lua
    "recorded", "once", "number_of", "available_in", "text_of", "lease_permit", "end_lease",
} }
files["lua/*.lua"] = { read_globals = {
    "holder_of", "PLACE", "fair_head", "notify_head", "number_of", "once", "recorded", "unchanged",
    "available_in", "text_of", "lease_permit", "end_lease", "now_millis", "wrong_type",
    -- shared/waiters.lua
    "type_error", "keep", "sweep", "notify", "tell",
    -- shared/read_write.lua
    "timeout_key", "mode_of", "writer_of", "readers_left", "set_lease", "reader_of",
    "read_write_channel", "MANY", "end_if_unread", "refuse",
    -- shared/tagged.lua, shared/line.lua
    "tagged", "RESERVED", "READER", "existing_with_line", "line_of", "now_micros", "first_in",
    "reserved_for", "call_first", "enter_line", "leave_line", "end_wait",
    -- shared/lines.lua, shared/permit_line.lua
    "count_lines", "enter_lines", "may_take", "leave_permits", "await_permits", "notify_free",
    -- shared/kinds.lua, shared/fair_head.lua
    "is_of_fair_lock", "is_of_this_library", "mixed_kinds", "is_ours", "listeners",
    "life_of_places", "LISTENED", "BEHIND_REDISSON", "is_behind_redisson",
} }
