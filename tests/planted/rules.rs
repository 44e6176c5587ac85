//! The rules of the lines and of the queue of a fair lock, each left out by an edit of the source.

use crate::bugs::Edit;

const END_WAIT: &str = "lua/shared/end_wait.lua";
const FAIR_HEAD: &str = "lua/shared/fair_head.lua";
const LINE: &str = "lua/shared/line.lua";
const PERMIT_LINE: &str = "lua/shared/permit_line.lua";
const READ_WRITE_ACQUIRE: &str = "lua/read_write_acquire.lua";
const ACQUISITION: &str = "src/engine/acquire/acquisition.rs";
const CHANNELS: &str = "src/subscriber/channels.rs";
const WATCHDOG_LINES: &str = "src/watchdog/lines.rs";

/// A release calls the first place without a mark.
pub const NOT_MARKED: &[Edit] = &[Edit::new(
    LINE,
    "redis.pcall('zadd', line, -time_of_call(round), '')",
    "called = nil",
)];

/// A waiting client takes a lock that is reserved for another one.
pub const BARGES: &[Edit] = &[Edit::new(
    LINE,
    r"return math.ceil(time_left(called) / 1000)
end",
    r"return 0
end",
)];

/// A place on whose channel no client listens is called, and stays.
pub const DEAD_KEPT: &[Edit] = &[Edit::new(
    LINE,
    "elseif listeners > 0 then",
    "elseif listeners >= 0 then",
)];

/// A called client that is refused leaves its mark.
pub const MARK_KEPT: &[Edit] = &[Edit::new(
    LINE,
    r"    redis.pcall('zrem', line, '')
            end
            return rank - 1",
    r"end
            return rank - 1",
)];

/// A place is removed when it is called.
pub const DROPPED_AT_CALL: &[Edit] = &[Edit::new(
    LINE,
    r"heard = heard + 1
            if heard == called_together(called or round) then
                break",
    r"heard = heard + 1
            if heard == called_together(called or round) then
                redis.pcall('zrem', line, place)
                break",
)];

/// The first place leaves a free lock, and does not call the next one.
pub const LEAVES_SILENTLY: &[Edit] = &[Edit::new(
    END_WAIT,
    "return not (holder and is_of_this_library(holder)) and",
    "return holder and not is_of_this_library(holder) and",
)];

/// A client that is called and does not wait keeps its place.
pub const CALL_IGNORED: &[Edit] = &[Edit::new(
    "src/subscriber/thread.rs",
    "(on.unanswered)(key, place);",
    "let _ = (key, place);",
)];

/// A mark has no end.
pub const RESERVED_WITHOUT_END: &[Edit] = &[Edit::new(
    "lua/shared/reserved.lua",
    "return age < -64 and 0 or math.min(math.max(RESERVED - age, 0), RESERVED)",
    "return age < -64 and 0 or RESERVED",
)];

/// After a call without an answer, the next client is called, and not the next two.
pub const CALLS_ONE_BY_ONE: &[Edit] = &[Edit::new(
    LINE,
    "round, called = next_round(called), nil",
    "round, called = 0, nil",
)];

/// A client whose script has called another one does not look when the time of the call is over.
pub const NOT_FOLLOWED: &[Edit] = &[Edit::new(
    WATCHDOG_LINES,
    "let look_at = Moment::now().after(RESERVED);",
    "let look_at = Moment::NEVER.before(RESERVED);",
)];

/// A client that waits does not look after the line.
pub const NOT_LOOKED: &[Edit] = &[
    Edit::new(
        WATCHDOG_LINES,
        "Moment::now().after(pending.unwrap_or(first));",
        "pending.map_or(Moment::NEVER.before(first), |time| Moment::now().after(time));",
    ),
    Edit::new(
        WATCHDOG_LINES,
        "line.set(asked.after(time), time <= RESERVED);",
        r"let is_pending = time <= RESERVED;
                let look_at = if is_pending { asked.after(time) } else { Moment::NEVER };
                line.set(look_at, is_pending);",
    ),
];

/// A client whose look finds no place does not ask.
pub const LOSS_NOT_SEEN: &[Edit] = &[Edit::new(
    WATCHDOG_LINES,
    r"                Some(woken)
",
    r"                Some(woken).filter(|_| false)
",
)];

/// A waiting client takes a free lock for which no client is called.
pub const PASSES_FIRST: &[Edit] = &[Edit::new(
    LINE,
    r"if not call_next(lock, publish) then
            return 0
        end",
    r"if place ~= '' then
            return 0
        end",
)];

/// A thread does not ask again when its subscription is confirmed.
pub const NOT_ASKED_AFTER_CONFIRMATION: &[Edit] = &[
    Edit::new(
        CHANNELS,
        "calls.flat_map(|(_, entry)| entry.unparkers()).collect()",
        "calls.flat_map(|(_, entry)| entry.unparkers()).filter(|_| false).collect()",
    ),
    Edit::new(
        CHANNELS,
        "self.set(channel, ChannelState::Live(now))",
        r"self.set(channel, ChannelState::Live(now));
        Vec::new()",
    ),
    Edit::new(CHANNELS, "live >= since || called.max", "called.max"),
];

/// A message that arrives during a request is forgotten when the reply arrives.
pub const MESSAGE_FORGOTTEN: &[Edit] = &[Edit::new(
    "src/engine/acquire/round.rs",
    "if prepared.is_some_and(|prepared| prepared.is_outdated()) {",
    r"budget.take_message();
        budget.take_wake_up();
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {",
)];

/// A thread that gives up leaves its place to another one, which does not ask at once.
pub const HEIR_SILENT: &[Edit] = &[Edit::new(
    ACQUISITION,
    r"self.pause_for_others();
        }",
    r"self.pause_for_others();
            if self.claim.is_inherited && self.line.has_place() {
                let called = lock.channel().called(crate::base::clock::Moment::now());
                self.wait.sleep_listening(&lock.core, &[called], None, budget.wait_left());
            }
        }",
)];

/// A thread that gives up leaves the line although another thread of the client goes on.
pub const HEIR_FORGOTTEN: &[Edit] = &[
    Edit::new(
        "src/engine/line.rs",
        "self.is_known && claim.is_wanted_by_others()",
        "self.is_known && claim.is_wanted_by_others() && false",
    ),
    Edit::new(
        ACQUISITION,
        r"        if self.claim.pass_on_if_wanted() {
            return;
        }",
        "        self.claim.pass_on_if_wanted();",
    ),
];

/// A reader enters although a writer is first.
pub const PASSES_WRITER: &[Edit] = &[Edit::new(
    READ_WRITE_ACQUIRE,
    r"elseif is_reader then
        return nil
    end
    return refuse(",
    r"elseif is_reader or called == nil then
        return nil
    end
    return refuse(",
)];

/// A reader that is granted the lock does not call the next one.
pub const CHAIN_BROKEN: &[Edit] = &[Edit::new(
    READ_WRITE_ACQUIRE,
    r"        call_next(lock, publish, true)
",
    "",
)];

/// The first place leaves a lock that readers hold, and does not call the next one.
pub const LEAVES_READERS_SILENTLY: &[Edit] = &[
    Edit::new(
        END_WAIT,
        "return not (holder and is_of_this_library(holder)) and",
        "return (holder and not is_of_this_library(holder) or redis.call('exists', lock) == 0) and",
    ),
    Edit::new(
        READ_WRITE_ACQUIRE,
        "if not (is_of_this_library(owned_by) and string.find(owned_by, ':write$')) then",
        "if not is_of_this_library(owned_by) then",
    ),
];

/// A writer that keeps its read lock does not call the first reader.
pub const DOWNGRADES_SILENTLY: &[Edit] = &[Edit::new(
    "lua/read_write_release.lua",
    "and call_next(lock, publish, is_writer and not is_free)",
    "and (is_free or not is_writer) and call_next(lock, publish)",
)];

/// A place keeps the role with which it entered.
pub const ROLE_KEPT: &[Edit] = &[Edit::new(
    LINE,
    "if entered and entered % 1 ~= role then",
    "if entered == place then",
)];

/// Permits of called clients are given to others, too.
pub const NOT_RESERVED: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    "left = left - needed_by(head, other)",
    "left = left - 0 * needed_by(head, other)",
)];

/// A client that needs more than are free does not keep those behind it from a call.
pub const PASSES_MANY: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    "elseif not fits and let_pass() then",
    "elseif not fits then",
)];

/// A client that needs more than are free is not probed.
pub const PERMITS_NOT_PROBED: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    "elseif not fits and (next == place or called[1] or was_probed(head)) then",
    "elseif not fits then",
)];

/// A client that needs more than are free always keeps those behind it waiting.
pub const NEVER_PASSED: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    "elseif not fits and let_pass() then",
    "elseif not fits and entered == place then",
)];

/// After a silent client, the next one is called, and not the next two.
pub const PERMITS_CALL_ONE_BY_ONE: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    r"round = next_round(since)
            together = called_together(round)",
    "round, together = 0, 1",
)];

/// A request takes free permits although others wait.
pub const PERMITS_BARGE: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    "if free < needed or not head or at_in_called(head, place) then",
    "if free < needed or not head or free >= needed then",
)];

/// A called client has any time to answer.
pub const LATE_PERMITS_KEPT: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    r"if time_left(since) == 0 then
            remove_silent",
    r"if time_left(since) < 0 then
            remove_silent",
)];

/// Places are removed although their clients have not listened yet.
pub const UNMARKED_PLACES_REMOVED: &[Edit] = &[Edit::new(
    FAIR_HEAD,
    "channels and is_ours(head) and end_ms % 1 >= LISTENED",
    "channels and is_ours(head)",
)];
