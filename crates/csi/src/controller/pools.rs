//! The directories of the target, and what is free there.

use super::Controller;
use crate::capability::Use;
use crate::messages::{GetCapacityRequest, GetCapacityResponse, Int64Value};
use crate::parameters::Parameters;
use crate::size::MOST;
use crate::target::{Call, Document, Trouble, word};
use crate::volume::signed;
use std::collections::HashMap;
use tonic::Status;
use units::Bytes;

/// The directory that is named, or the only one; and whether it may promise more than it has.
pub(super) fn choose<'d>(document: &'d Document, named: Option<&str>) -> Result<(&'d str, bool), Status> {
    let mut pools: Vec<(&str, bool)> = document.pools().collect();
    let names = |pools: &[(&str, bool)]| {
        let names: Vec<&str> = pools.iter().map(|(name, _)| *name).collect();
        if names.is_empty() { "there is none".to_owned() } else { format!("there are {}", names.join(", ")) }
    };
    match named {
        Some(named) => pools.iter().find(|(name, _)| *name == named).copied().ok_or_else(|| {
            let names = names(&pools);
            Status::invalid_argument(format!("parameter pool: {named:?} is no directory; {names}"))
        }),
        None if pools.len() == 1 => Ok(pools.remove(0)),
        None => Err(Status::invalid_argument(format!(
            "parameter pool is missing: name a [[device]] with kind = \"directory\"; {}",
            names(&pools)
        ))),
    }
}

/// The space that is left in a directory, of all that it has.
fn room(call: &Call<'_>, (pool, overcommits): (&str, bool)) -> Result<(Bytes, Bytes), Status> {
    let path = format!("/v1/devices/{}/room", word(pool));
    let found =
        call.get(&path)?.ok_or_else(|| Status::not_found(format!("there is no directory {pool:?}")))?;
    let field = |name: &str| {
        let missing = || Status::internal(format!("the answer to {path} has no {name}"));
        found[name].as_u64().map(Bytes).ok_or_else(missing)
    };
    let free = field("free")?;
    let left = if overcommits { free } else { free.saturating_sub(field("promised")?) };
    Ok((left, field("size")?))
}

/// The refusal of a change; RESOURCE_EXHAUSTED if the directory is full.
pub(super) fn expect_room(call: &Call<'_>, pool: (&str, bool), more: Bytes, trouble: Trouble) -> Trouble {
    let Trouble::Refused(refused) = trouble else { return trouble };
    match room(call, pool) {
        Ok((left, size)) if more > left => Trouble::Refused(Status::resource_exhausted(format!(
            "pool {:?} has {left} of {size} left, and {more} are needed; {}",
            pool.0,
            refused.message()
        ))),
        _ => Trouble::Refused(refused),
    }
}

impl Controller {
    pub(super) fn capacity(&self, request: GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        if !request.volume_capabilities.is_empty() {
            Use::expect_all(&request.volume_capabilities)?;
        }
        let parameters = Parameters::of(&request.parameters, &HashMap::new())?;
        let call = self.target.call();
        let document = call.document()?;
        let (left, _) = room(&call, choose(&document, parameters.pool.as_deref())?)?;
        Ok(GetCapacityResponse {
            available_capacity: signed(left),
            maximum_volume_size: Some(Int64Value { value: signed(left.min(MOST)) }),
        })
    }
}
