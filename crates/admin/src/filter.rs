//! The query of who looks at some devices or tenants only: `?device=NAME&host=NQN`, `?subsystem=NQN&namespace=NSID`.

use crate::refusal::Refusal;
use server::TenantName;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    device: Option<String>,
    host: Option<String>,
    subsystem: Option<String>,
    namespace: Option<u32>,
}

impl Filter {
    /// That of a query, where there are these devices.
    pub(crate) fn of(query: Option<&str>, devices: &[&str]) -> Result<Filter, Refusal> {
        let mut filter = Filter::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "device" => filter.device = Some(value.into_owned()),
                "host" => filter.host = Some(value.into_owned()),
                "subsystem" => filter.subsystem = Some(value.into_owned()),
                "namespace" => {
                    let nsid = value.parse().map_err(|_| {
                        Refusal::new(400, format!("{value:?} is no number of a namespace; write 1, 2, …"))
                    })?;
                    filter.namespace = Some(nsid);
                }
                other => {
                    let detail = format!(
                        "{other:?} is no field of this query; device, host, subsystem and namespace are"
                    );
                    return Err(Refusal::new(400, detail));
                }
            }
        }
        match &filter.device {
            Some(device) if !devices.contains(&&**device) => {
                let detail = format!("there is no device {device:?}; there are {}", devices.join(", "));
                Err(Refusal::new(404, detail))
            }
            _ => Ok(filter),
        }
    }

    /// Whether it asks for this tenant on this device.
    pub(crate) fn wants(&self, device: &str, tenant: &TenantName) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let is_tenant = match tenant {
            TenantName::Host(nqn) => {
                self.subsystem.is_none() && self.namespace.is_none() && is(&self.host, nqn)
            }
            TenantName::Namespace { subsystem, nsid } => {
                let is_number = self.namespace.is_none_or(|wanted| wanted == *nsid);
                self.host.is_none() && is(&self.subsystem, subsystem) && is_number
            }
        };
        is(&self.device, device) && is_tenant
    }
}
