//! The NVMe/TCP target.

pub mod config;
mod identity;
