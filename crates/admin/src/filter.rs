//! The query of who looks at some devices or hosts only: `?device=NAME&host=NQN`.

use crate::refusal::Refusal;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    device: Option<String>,
    host: Option<String>,
}

impl Filter {
    /// That of a query, where there are these devices.
    pub(crate) fn of(query: Option<&str>, devices: &[&str]) -> Result<Filter, Refusal> {
        let mut filter = Filter::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "device" => filter.device = Some(value.into_owned()),
                "host" => filter.host = Some(value.into_owned()),
                other => {
                    let detail = format!("{other:?} is no field of this query; device and host are");
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

    /// Whether it asks for this host on this device.
    pub(crate) fn wants(&self, device: &str, host: &str) -> bool {
        let is = |wanted: &Option<String>, found| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.device, device) && is(&self.host, host)
    }
}
