//! The NVMe/TCP initiator.
