//! The history of a run, from the logs of its processes: the lines of a log, and a checker of what
//! the locks promise. The torture program and the simulation include this folder.

pub mod around;
pub mod checker;
pub mod record;
pub mod remains;
