//! What a client does with the name of a lock, as methods of its handle.

use super::holder::{Holder, holder};
use crate::engine;
use crate::error::Result;
use crate::lock::{FairLock, FencedLock, ReadLock, ReentrantLock, WriteLock};
use crate::protocol::LockStatus;

macro_rules! operator_methods {
    ($($lock:ident)+) => { $(
        /// What an operator asks Redis about the lock, or does with it, whichever owner holds it.
        impl $lock {
            /// Asks Redis who holds the lock, how often, and for how long:
            /// [`LockClient::inspect`](crate::LockClient::inspect) with the name of this lock.
            ///
            /// # Errors
            ///
            /// Those of [`LockClient::inspect`](crate::LockClient::inspect).
            pub fn inspect(&self) -> Result<LockStatus> {
                engine::inspect(&self.0.core, &self.0.key)
            }

            /// Asks Redis which process holds the lock:
            /// [`LockClient::holder`](crate::LockClient::holder) with the name of this lock.
            ///
            /// # Errors
            ///
            /// Those of [`LockClient::holder`](crate::LockClient::holder).
            pub fn holder(&self) -> Result<Option<Holder>> {
                holder(&self.0.core, &self.0.key)
            }

            /// Frees the lock, whichever owner holds it. Returns false if no owner held it:
            /// [`LockClient::force_unlock`](crate::LockClient::force_unlock) with the name of this
            /// lock.
            ///
            /// # Errors
            ///
            /// Those of [`LockClient::force_unlock`](crate::LockClient::force_unlock).
            pub fn force_unlock(&self) -> Result<bool> {
                engine::force_unlock(&self.0.core, &self.0.key)
            }
        }
    )+ };
}

operator_methods! { ReentrantLock FencedLock FairLock ReadLock WriteLock }
