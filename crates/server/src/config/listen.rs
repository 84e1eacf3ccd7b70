//! `listen`: the addresses that hosts connect to, each a text, or a table with its transport.
//!
//! ```toml
//! listen = ["192.0.2.7:4420", "rdma://192.0.2.7:4420", { address = "[2001:db8::7]:4420", transport = "tcp" }]
//! ```

use super::fields::{Fields, Findings};
use super::read::required;
use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::str::FromStr;
use toml::de::DeValue;

const EXPECTED: &str = "a list of addresses such as [\"0.0.0.0:4420\"]";
/// The beginning of an address with RDMA.
const RDMA: &str = "rdma://";

/// An address that hosts connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// The address; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The transport that hosts use there.
    pub transport: Transport,
}

/// A transport of NVMe over Fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

/// The words of `transport`.
const TRANSPORTS: [(&str, Transport); 2] = [("tcp", Transport::Tcp), ("rdma", Transport::Rdma)];

impl From<SocketAddr> for Listen {
    /// The address with NVMe/TCP.
    fn from(address: SocketAddr) -> Listen {
        Listen { address, transport: Transport::Tcp }
    }
}

impl fmt::Display for Listen {
    /// Writes the short form of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Tcp => self.address.fmt(f),
            Transport::Rdma => write!(f, "{RDMA}{}", self.address),
        }
    }
}

impl FromStr for Listen {
    type Err = AddrParseError;

    /// Reads the short form of a file.
    fn from_str(text: &str) -> Result<Listen, AddrParseError> {
        match text.strip_prefix(RDMA) {
            Some(address) => Ok(Listen { address: address.parse()?, transport: Transport::Rdma }),
            None => Ok(Listen { address: text.parse()?, transport: Transport::Tcp }),
        }
    }
}

/// Reads the list; `None` if it is not there or cannot be read.
pub(super) fn read(top: &mut Fields<'_, '_>, findings: &mut Findings) -> Option<Vec<Listen>> {
    let before = findings.problems.len();
    let mut addresses = Vec::new();
    for (path, item) in top.items(findings, "listen", EXPECTED)? {
        if let DeValue::Table(table) = item.get_ref() {
            let mut table = Fields::new(path, table, findings);
            let address = required(&mut table, findings, "address", "an address such as \"0.0.0.0:4420\"");
            let transport = table.choice(findings, "transport", &TRANSPORTS).unwrap_or_default();
            if let Ok(address) = address.parse() {
                addresses.push(Listen { address, transport });
            } else if table.has("address") {
                table.reject(findings, "address", "an address such as \"0.0.0.0:4420\"");
            }
            table.finish(findings);
        } else if let Some(listen) = item.get_ref().as_str().and_then(|text| text.parse().ok()) {
            addresses.push(listen);
        } else {
            top.reject(findings, "listen", EXPECTED);
            return None;
        }
    }
    (findings.problems.len() == before).then_some(addresses)
}
