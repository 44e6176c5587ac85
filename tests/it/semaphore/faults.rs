//! Semaphores in every deployment.
