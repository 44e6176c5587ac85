//! What the library uses of `parking_lot`, on the mutexes of shuttle. Times never run out.

#![allow(missing_docs, reason = "the documentation is that of parking_lot")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use shuttle::sync;

#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// `None` only while a condition variable has the guard.
pub struct MutexGuard<'a, T: ?Sized>(Option<sync::MutexGuard<'a, T>>);

#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect("no thread panics")))
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no thread panics")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        {
            let g = self.0.lock().unwrap();
            fmt::Debug::fmt(&&*g, f)
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("no condition variable has it")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("no condition variable has it")
    }
}

impl Condvar {
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("no condition variable has it");
        guard.0 = Some(self.0.wait(inner).expect("no thread panics"));
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl<T: ?Sized> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MutexGuard")
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
