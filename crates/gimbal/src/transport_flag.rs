//! The flag that names the transport, for commands that connect to targets.

use clap::ValueEnum;
use host::TransportType;

/// See the module.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct TransportFlag {
    /// How targets are reached
    #[arg(long, value_enum, default_value_t = Name::Tcp)]
    transport: Name,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// NVMe/TCP
    Tcp,
    /// NVMe/RDMA, by an RDMA device of this machine
    Rdma,
}

impl TransportFlag {
    /// The transport.
    pub(crate) fn get(self) -> TransportType {
        match self.transport {
            Name::Tcp => TransportType::Tcp,
            Name::Rdma => TransportType::Rdma,
        }
    }
}
