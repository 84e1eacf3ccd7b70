//! Messages of the service Identity.

use prost::{Enumeration, Message};
use std::collections::HashMap;

/// A request for the driver's name.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginInfoRequest {}

/// The driver's name.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginInfoResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub vendor_version: String,
    /// More facts.
    #[prost(map = "string, string", tag = "3")]
    pub manifest: HashMap<String, String>,
}

/// A request for the driver's abilities.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginCapabilitiesRequest {}

/// The driver's abilities.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginCapabilitiesResponse {
    /// One each.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

/// An ability: a service, or a way to expand volumes.
#[derive(Clone, PartialEq, Message)]
pub struct PluginCapability {
    /// A service.
    #[prost(message, optional, tag = "1")]
    pub service: Option<ServiceCapability>,
    /// A way to expand volumes.
    #[prost(message, optional, tag = "2")]
    pub volume_expansion: Option<ExpansionCapability>,
}

/// A service of the driver.
#[derive(Clone, PartialEq, Message)]
pub struct ServiceCapability {
    /// Its number.
    #[prost(enumeration = "PluginService", tag = "1")]
    pub r#type: i32,
}

/// Services of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum PluginService {
    /// None.
    Unknown = 0,
    /// Controller.
    Controller = 1,
}

/// A way to expand volumes.
#[derive(Clone, PartialEq, Message)]
pub struct ExpansionCapability {
    /// Its number.
    #[prost(enumeration = "Expansion", tag = "1")]
    pub r#type: i32,
}

/// Ways to expand volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Expansion {
    /// None.
    Unknown = 0,
    /// While they are used.
    Online = 1,
}

/// A question whether the driver is well.
#[derive(Clone, PartialEq, Message)]
pub struct ProbeRequest {}

/// The answer.
#[derive(Clone, PartialEq, Message)]
pub struct ProbeResponse {
    /// Whether it is ready.
    #[prost(message, optional, tag = "1")]
    pub ready: Option<BoolValue>,
}

/// A truth that may be absent (`google.protobuf.BoolValue`).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct BoolValue {
    /// The value.
    #[prost(bool, tag = "1")]
    pub value: bool,
}
