//! Namespaces that are tenants.

use super::*;

#[test]
fn a_namespace_has_promises_only_if_it_is_a_tenant() {
    let subsystem = |own: &str, of_namespace: &str| {
        let text = SMALLEST.replace("allow_any_host = true", &format!("allow_any_host = true\n{own}"));
        format!("{text}{of_namespace}\n")
    };
    let kind = |own, of_namespace| {
        let config = Config::parse(&subsystem(own, of_namespace)).expect("valid");
        let [subsystem] = &config.subsystems[..] else { panic!("one") };
        assert_eq!(
            config.namespace_tenants().count(),
            usize::from(subsystem.tenant_of(&subsystem.namespaces[0]) == TenantKind::Namespace)
        );
        subsystem.tenant_of(&subsystem.namespaces[0])
    };
    let (host, namespace) = ("tenant = \"host\"", "tenant = \"namespace\"");
    for (own, of_namespace, expected) in [
        ("", "", TenantKind::Host),
        (namespace, "", TenantKind::Namespace),
        (namespace, host, TenantKind::Host),
        (host, namespace, TenantKind::Namespace),
    ] {
        assert_eq!(kind(own, of_namespace), expected, "{own}, {of_namespace}");
    }
    let all = format!(
        "{namespace}\nweight = 4\nlimit_iops = 100\nlimit_rate = \"10M\"\nreservation = \"1M\"\nslo = {{ iops = 100, latency_p99 = \"1ms\" }}"
    );
    let config = Config::parse(&subsystem("", &all)).expect("valid");
    let share = config.subsystems[0].namespaces[0].share.as_ref().expect("it is written");
    assert_eq!((share.weight, share.limit_iops, share.slo.map(|slo| slo.iops)), (4, Some(100), Some(100)));
    let place = "subsystem[0].namespace[0]";
    for (own, of_namespace, said) in [
        (
            "",
            "weight = 4".to_owned(),
            "weight: the tenants of namespace 1 are its hosts, and weight would be",
        ),
        ("", "weight = 1".to_owned(), "weight: the tenants of namespace 1 are its hosts"),
        (
            "",
            "limit_rate = \"1M\"\nreservation = \"1M\"".to_owned(),
            "limit_rate: the tenants of namespace 1 are its hosts, and limit_rate, reservation would",
        ),
        (
            namespace,
            format!("{host}\nslo = {{ iops = 1, latency_p99 = \"1ms\" }}"),
            "slo: the tenants of namespace 1",
        ),
        (namespace, "weight = 0".to_owned(), "weight: zero would get nothing; write 1 or more"),
        (
            namespace,
            "limit_rate = \"1M\"\nreservation = \"2M\"".to_owned(),
            "reservation: 2.1 MB/s are promised to a tenant that is limited to 1.0 MB/s; lower it",
        ),
        (namespace, "slo = { iops = 100 }".to_owned(), "slo.latency_p99: is missing"),
        ("", "tenant = \"volume\"".to_owned(), "tenant: \"volume\" is not \"host\" or \"namespace\""),
    ] {
        let errors = errors(&subsystem(own, &of_namespace));
        assert!(errors.contains(&format!("{place}.{said}")), "missing {said:?} in: {errors}");
    }
    let refused = errors(&subsystem("", "weight = 4"));
    assert!(refused.contains("write tenant = \"namespace\" at it or at its subsystem"), "{refused}");
    assert!(
        errors(&subsystem("tenant = 3", "")).contains("subsystem[0].tenant: 3 is not"),
        "by its own field"
    );
}

#[test]
fn there_is_a_bound_for_namespaces_that_are_tenants() {
    let mut config = Config::parse(SMALLEST).expect("valid");
    config.devices[0].kind = DeviceKind::Null { size: Bytes::gib(64) };
    let first = config.subsystems[0].namespaces[0].clone();
    let at = |nsid: u32, place: u64| NamespaceConfig {
        nsid,
        offset: Bytes::mib(place),
        size: Some(Bytes::mib(1)),
        ..first.clone()
    };
    config.subsystems[0].tenant = TenantKind::Namespace;
    config.subsystems[0].namespaces = (1..=4096).map(|nsid| at(nsid, u64::from(nsid))).collect();
    assert!(config.check().is_ok());
    let mut second = config.subsystems[0].clone();
    second.nqn += "2";
    second.namespaces = vec![at(1, 5000), at(2, 5001)];
    config.subsystems.push(second);
    let said = config.check().expect_err("too many").to_string();
    assert!(
        said.contains("subsystem[1].namespace[0].tenant: more than 4096 namespaces are tenants"),
        "{said}"
    );
    assert_eq!(said.matches("are tenants").count(), 1, "{said}");
    config.subsystems[1].tenant = TenantKind::Host;
    assert!(config.check().is_ok());
}
