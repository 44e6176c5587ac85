//! What happens to the requests and the replies of a process.

use leasehold_simulation_world::random;

/// What happens to the requests and the messages of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// A fault meets one of this many requests; 0: none.
    pub one_of: u64,
    /// The only fault; `None`: any.
    pub fault: Option<RequestFault>,
    /// How many percent of the messages are lost.
    pub lost_messages: u64,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The connection does not reply any more, and executes nothing.
    LoseRequest,
    /// The connection does not reply any more.
    LoseReply,
    /// The connection is reset after the request was executed.
    ResetBeforeReply,
    /// As [`LoseRequest`](Self::LoseRequest), and the request is executed later.
    HoldBack,
}

impl RequestFault {
    const ALL: [Self; 4] = [
        Self::LoseRequest,
        Self::LoseReply,
        Self::ResetBeforeReply,
        Self::HoldBack,
    ];

    pub fn any() -> Self {
        Self::ALL[random::index(Self::ALL.len())]
    }
}
