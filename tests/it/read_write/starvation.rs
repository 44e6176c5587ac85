//! Writers are not starved by readers, nor readers by writers.
