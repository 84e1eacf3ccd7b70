//! NVMe and NVMe/TCP without sockets.
