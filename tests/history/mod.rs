//! The history of a run: the records of its logs, what is left in Redis after it, and a checker of
//! what the locks promise. The torture program and the simulation include this folder.

pub mod around;
pub mod checker;
pub mod record;
pub mod remains;
