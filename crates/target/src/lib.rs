//! The NVMe/TCP target.
