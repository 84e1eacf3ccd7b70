//! The parameters of StorageClasses and VolumeAttributesClasses.

use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::str::FromStr;
use tonic::Status;
use units::{Bytes, Nanos};

/// Keys that sidecars of Kubernetes add for information.
const FOREIGN: &str = "csi.storage.k8s.io/";
/// The keys that are only for new volumes.
const FIXED: [&str; 2] = ["pool", "auth"];
/// The keys of promises.
const CHANGEABLE: [&str; 6] = ["weight", "limitIops", "limitRate", "reservation", "sloIops", "sloLatencyP99"];
/// The value of a promise that is taken back.
const NONE: &str = "none";

/// The promises to a volume; `None`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    weight: Option<u64>,
    limit_iops: Option<u64>,
    limit_rate: Option<Bytes>,
    reservation: Option<Bytes>,
    slo_iops: Option<u64>,
    slo_latency: Option<Nanos>,
}

/// The parameters of a new volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// The directory; `None`: the only one.
    pub(crate) pool: Option<String>,
    /// Whether its hosts have to prove who they are.
    pub(crate) auth: bool,
    /// The promises to it.
    pub(crate) promises: Promises,
}

impl Parameters {
    /// Reads the parameters of a request; those that may change later win.
    pub(crate) fn of(
        fixed: &HashMap<String, String>,
        mutable: &HashMap<String, String>,
    ) -> Result<Parameters, Status> {
        expect_known(fixed, &[&FIXED[..], &CHANGEABLE].concat())?;
        let mut promises = Promises::default();
        promises.read(fixed)?;
        promises.change(mutable)?;
        let auth = match fixed.get("auth").map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(wrong("auth", other, "\"true\" or \"false\"")),
        };
        Ok(Parameters { pool: fixed.get("pool").cloned(), auth, promises })
    }
}

impl Promises {
    /// Changes those that are named. `none` takes one back.
    pub(crate) fn change(&mut self, named: &HashMap<String, String>) -> Result<(), Status> {
        expect_known(named, &CHANGEABLE)?;
        self.read(named)
    }

    fn read(&mut self, named: &HashMap<String, String>) -> Result<(), Status> {
        let mut numbers = [
            ("weight", &mut self.weight),
            ("limitIops", &mut self.limit_iops),
            ("sloIops", &mut self.slo_iops),
        ];
        for (name, number) in &mut numbers {
            take(named, name, "a whole number such as \"100\"", number)?;
        }
        take(named, "limitRate", "a rate per second such as \"100M\"", &mut self.limit_rate)?;
        take(named, "reservation", "a rate per second such as \"100M\"", &mut self.reservation)?;
        take(named, "sloLatencyP99", "a time such as \"2ms\"", &mut self.slo_latency)?;
        if self.slo_iops.is_some() != self.slo_latency.is_some() {
            return Err(Status::invalid_argument(
                "sloLatencyP99 and sloIops belong together: the latency is promised up to that many IOs per second",
            ));
        }
        Ok(())
    }

    /// The promises in the table of a namespace.
    pub(crate) fn in_table(namespace: &Value) -> Promises {
        let slo = &namespace["slo"];
        Promises {
            weight: namespace["weight"].as_u64().filter(|weight| *weight != 1),
            limit_iops: namespace["limit_iops"].as_u64(),
            limit_rate: bytes(&namespace["limit_rate"]),
            reservation: bytes(&namespace["reservation"]),
            slo_iops: slo["iops"].as_u64(),
            slo_latency: slo["latency_p99"].as_str().and_then(|text| text.parse().ok()),
        }
    }

    /// The fields of the table of a namespace; `null` is one that is not there.
    pub(crate) fn to_table(&self) -> Map<String, Value> {
        let number = |bytes: Option<Bytes>| bytes.map(Bytes::get);
        let slo = self.slo_iops.zip(self.slo_latency);
        let slo =
            slo.map(|(iops, latency)| json!({ "iops": iops, "latency_p99": format!("{}ns", latency.0) }));
        let fields = json!({
            "weight": self.weight,
            "limit_iops": self.limit_iops,
            "limit_rate": number(self.limit_rate),
            "reservation": number(self.reservation),
            "slo": slo,
        });
        let Value::Object(fields) = fields else { unreachable!("a table was written") };
        fields
    }

    /// Whether two have the same effect.
    pub(crate) fn are_the_same(&self, other: &Promises) -> bool {
        let of = |promises: &Promises| Promises {
            weight: promises.weight.filter(|weight| *weight != 1),
            ..promises.clone()
        };
        of(self) == of(other)
    }
}

/// A size in the configuration: a number of bytes, or a text.
pub(crate) fn bytes(value: &Value) -> Option<Bytes> {
    value.as_u64().map(Bytes).or_else(|| value.as_str()?.parse().ok())
}

fn take<T: FromStr>(
    named: &HashMap<String, String>,
    name: &str,
    expected: &str,
    to: &mut Option<T>,
) -> Result<(), Status> {
    if let Some(text) = named.get(name) {
        *to = match text.as_str() {
            NONE => None,
            text => Some(text.parse().map_err(|_| wrong(name, text, expected))?),
        };
    }
    Ok(())
}

fn wrong(name: &str, text: &str, expected: &str) -> Status {
    Status::invalid_argument(format!("parameter {name} is {text:?}; write {expected}"))
}

fn expect_known(named: &HashMap<String, String>, known: &[&str]) -> Result<(), Status> {
    let is_unknown = |name: &&String| !name.starts_with(FOREIGN) && !known.contains(&name.as_str());
    let mut unknown: Vec<&str> = named.keys().filter(is_unknown).map(String::as_str).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    let (unknown, known) = (unknown.join(", "), known.join(", "));
    Err(Status::invalid_argument(format!("unknown parameters: {unknown}; there are {known}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        Parameters::of(&named(pairs), &named(&[])).expect_err("it is wrong").message().to_owned()
    }

    #[test]
    fn promises_are_the_same_in_the_file_and_back() {
        let pairs = [
            ("weight", "4"),
            ("limitIops", "1000"),
            ("limitRate", "100M"),
            ("reservation", "10M"),
            ("sloIops", "500"),
            ("sloLatencyP99", "2ms"),
        ];
        let mut promises = Parameters::of(&named(&pairs), &named(&[])).expect("right").promises;
        assert_eq!(Promises::in_table(&Value::Object(promises.to_table())), promises);
        promises.change(&named(&[("weight", "1"), ("limitRate", "none")])).expect("right");
        assert!(promises.are_the_same(&Promises::in_table(&Value::Object(promises.to_table()))));
        assert_eq!(promises.to_table()["limit_rate"], Value::Null);
    }

    #[test]
    fn a_wrong_parameter_is_told_with_those_that_there_are() {
        let said = refused(&[("weihgt", "4"), ("a", "b"), ("csi.storage.k8s.io/pvc/name", "c")]);
        assert!(said.contains("unknown parameters: a, weihgt; there are pool, auth, weight"), "{said}");
        assert!(refused(&[("weight", "-1")]).contains("weight is \"-1\""));
        assert!(refused(&[("auth", "yes")]).contains("\"true\" or \"false\""));
        assert!(refused(&[("sloLatencyP99", "2ms")]).contains("sloIops"));
        let mutable = Parameters::of(&named(&[]), &named(&[("pool", "a")])).expect_err("it cannot change");
        assert!(mutable.message().contains("unknown parameters: pool"));
    }
}
