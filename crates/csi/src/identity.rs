//! The service Identity: the driver's name and abilities, and whether it is well.

use crate::DRIVER;
use crate::messages::{
    BoolValue, Expansion, ExpansionCapability, GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse,
    GetPluginInfoRequest, GetPluginInfoResponse, PluginCapability, PluginService, ProbeRequest,
    ProbeResponse, ServiceCapability,
};
use crate::service::service;
use crate::target::Target;
use std::collections::HashMap;
use tonic::Status;

/// See the module.
#[derive(Debug)]
pub struct Identity {
    /// Of a controller.
    target: Option<Target>,
}

service!(IdentityService, Identity, "csi.v1.Identity", {
    "GetPluginInfo" => info,
    "GetPluginCapabilities" => capabilities,
    "Probe" => probe,
});

impl Identity {
    /// The identity of a driver with a controller for this target, or of one for a node only.
    pub fn new(target: Option<Target>) -> Identity {
        Identity { target }
    }

    fn info(&self, _: GetPluginInfoRequest) -> Result<GetPluginInfoResponse, Status> {
        let (name, vendor_version) = (DRIVER.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(GetPluginInfoResponse { name, vendor_version, manifest: HashMap::new() })
    }

    fn capabilities(&self, _: GetPluginCapabilitiesRequest) -> Result<GetPluginCapabilitiesResponse, Status> {
        let controller = ServiceCapability { r#type: PluginService::Controller.into() };
        let online = ExpansionCapability { r#type: Expansion::Online.into() };
        let capabilities = vec![
            PluginCapability { service: Some(controller), volume_expansion: None },
            PluginCapability { service: None, volume_expansion: Some(online) },
        ];
        Ok(GetPluginCapabilitiesResponse { capabilities })
    }

    /// Of a controller: whether the target answers.
    fn probe(&self, _: ProbeRequest) -> Result<ProbeResponse, Status> {
        if let Some(target) = &self.target {
            target.call().document()?;
        }
        Ok(ProbeResponse { ready: Some(BoolValue { value: true }) })
    }
}
