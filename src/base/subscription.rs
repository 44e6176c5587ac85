//! Messages that each of several receivers gets.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, never, unbounded};
use parking_lot::Mutex;

use super::process::Process;

/// The channel that [`LockGuard::lost`](crate::LockGuard::lost) and
/// [`LockClient::events`](crate::LockClient::events) return.
///
/// It dereferences to a `crossbeam_channel::Receiver`, so it has its methods, and can be used in
/// `crossbeam_channel::select!`. It can be sent to other threads.
///
/// **A clone is a channel of its own**, which also gets each message from its start on. If the lock
/// was lost before, that is its first message. A clone of the `Receiver` alone shares the messages,
/// and gets them only while the subscription exists. A subscription from another receiver, such as
/// `never().into()`, has the messages of that one.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{LockClient, LostReason};
///
/// let client = LockClient::connect(url)?;
/// let guard = client.reentrant_lock("order:pay").acquire()?;
/// let lost = guard.lost();
/// let workers = [lost.clone(), lost].map(|lost| std::thread::spawn(move || lost.recv()));
/// client.force_unlock("order:pay")?;
/// for worker in workers {
///     assert_eq!(worker.join().unwrap(), Ok(LostReason::Deleted));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Subscription<T> {
    receiver: Receiver<T>,
    publisher: Option<Arc<Publisher<T>>>,
    /// The publisher forgets the channel when this is dropped.
    _is_used: Arc<()>,
}

/// Sends messages to its subscriptions.
pub(crate) struct Publisher<T> {
    state: Mutex<PublisherState<T>>,
    process: Process,
}

/// Its mutex protects: no channel has more undelivered messages than it may, and each channel gets
/// the end.
struct PublisherState<T> {
    channels: Vec<SubscriptionSender<T>>,
    /// Set at the end: the last message, if there is one.
    end: Option<Option<T>>,
}

struct SubscriptionSender<T> {
    sender: Sender<T>,
    is_used: Weak<()>,
}

/// A channel without a publisher, such as `never()`, whose messages all clones share.
impl<T> From<Receiver<T>> for Subscription<T> {
    fn from(receiver: Receiver<T>) -> Self {
        Self {
            receiver,
            publisher: None,
            _is_used: Arc::default(),
        }
    }
}

impl<T: Clone> Clone for Subscription<T> {
    fn clone(&self) -> Self {
        match &self.publisher {
            Some(publisher) => publisher.subscribe(),
            None => self.receiver.clone().into(),
        }
    }
}

impl<T> Deref for Subscription<T> {
    type Target = Receiver<T>;

    fn deref(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<T> Default for Publisher<T> {
    fn default() -> Self {
        let (channels, end) = (Vec::new(), None);
        Self {
            state: Mutex::new(PublisherState { channels, end }),
            process: Process::current(),
        }
    }
}

impl<T: Clone> Publisher<T> {
    /// A channel that gets the messages from now on, and the last one also after the end. In a
    /// forked child, where the mutex may stay locked, it never gets one.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription<T> {
        if !self.process.is_current() {
            return never().into();
        }
        // A bounded channel would allocate its whole buffer now.
        let (sender, receiver) = unbounded();
        let subscription = Subscription {
            publisher: Some(Arc::clone(self)),
            ..Subscription::from(receiver)
        };
        let is_used = Arc::downgrade(&subscription._is_used);
        let mut state = self.state.lock();
        let is_unused = |channel: &mut SubscriptionSender<T>| channel.is_used.strong_count() == 0;
        let unused: Vec<_> = state.channels.extract_if(.., is_unused).collect();
        match state.end.clone() {
            None => state.channels.push(SubscriptionSender { sender, is_used }),
            Some(last) => last.into_iter().for_each(|last| _ = sender.send(last)),
        }
        drop(state);
        drop(unused);
        subscription
    }

    /// Sends a message to each channel that has fewer than `most` undelivered ones. Never blocks.
    /// Returns how many channels missed it.
    pub(crate) fn send(&self, message: &T, most: usize) -> u64 {
        let mut missed = 0;
        let is_unused = |channel: &mut SubscriptionSender<T>| {
            let is_full = channel.sender.len() >= most;
            missed += u64::from(is_full);
            !is_full && channel.sender.send(message.clone()).is_err()
        };
        let unused: Vec<_> = {
            let mut state = self.state.lock();
            state.channels.extract_if(.., is_unused).collect()
        };
        drop(unused);
        missed
    }

    /// Sends the last message, if there is one, and disconnects all channels. Does nothing after
    /// the end, and in a forked child.
    pub(crate) fn end(&self, last: Option<T>) {
        if !self.process.is_current() {
            return;
        }
        let channels = {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return;
            }
            state.end = Some(last.clone());
            std::mem::take(&mut state.channels)
        };
        for (channel, last) in channels.iter().zip(std::iter::repeat(last)) {
            last.into_iter()
                .for_each(|last| _ = channel.sender.send(last));
        }
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A mutex in a channel may stay locked.
            std::mem::forget(std::mem::take(&mut self.state.get_mut().channels));
        }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::TryRecvError;

    #[test]
    fn each_subscription_and_each_clone_gets_the_end_before_or_after_it() {
        let publisher = Arc::<Publisher<u8>>::default();
        let first = publisher.subscribe();
        let (clone, shared) = (first.clone(), Receiver::clone(&first));
        publisher.end(Some(1));
        publisher.end(Some(2));
        for subscription in [first.clone(), clone, publisher.subscribe(), first] {
            assert_eq!(subscription.try_recv(), Ok(1));
            assert_eq!(subscription.try_recv(), Err(TryRecvError::Disconnected));
        }
        assert!(
            shared.is_empty(),
            "a clone of the receiver has the same channel"
        );
    }

    #[test]
    fn without_a_last_message_the_end_disconnects() {
        let publisher = Arc::<Publisher<u8>>::default();
        let subscription = publisher.subscribe();
        publisher.end(None);
        for subscription in [subscription.clone(), subscription] {
            assert_eq!(subscription.try_recv(), Err(TryRecvError::Disconnected));
        }
    }

    #[test]
    fn subscriptions_that_were_dropped_take_no_memory_although_no_message_is_sent() {
        let publisher = Arc::<Publisher<u8>>::default();
        let kept = publisher.subscribe();
        (0..1000).for_each(|_| drop((publisher.subscribe(), kept.clone())));
        assert!(publisher.state.lock().channels.len() <= 3);
        assert_eq!(publisher.send(&7, 1), 0);
        assert_eq!(kept.try_recv(), Ok(7));
    }
}
