//! Reading and checking configurations.

mod tenants;

use super::*;
use sched::{Cost, Percentile, Scheduler};

const EXAMPLE: &str = include_str!("../../../../examples/gimbal.toml");

/// The problems of `text`, one per line, as a user sees them.
fn errors(text: &str) -> String {
    let problems = Config::parse(text).expect_err("the text is wrong");
    ConfigError::Wrong { file: Some("g.toml".into()), problems }.to_string()
}

const SMALLEST: &str = r#"
[[device]]
name = "a"
kind = "null"
size = "1G"

[[subsystem]]
nqn = "nqn.2025-01.io.example:a"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
device = "a"
"#;

const HOST: &str = "nqn.2025-01.io.example:host";

const SECURITY: &str = r#"
[security]
authentication = "required"
discovery = "hosts"
tls = "optional"
concat = true
dhchap_hash = ["sha512", "sha384"]
dhchap_group = ["ffdhe4096", "null"]

[[host]]
nqn = "nqn.2025-01.io.example:host"
dhchap_key = "a"
dhchap_key_next = "b"
dhchap_ctrl_key = "c"
"#;

#[test]
fn every_problem_of_proofs_has_its_field() {
    let open = SMALLEST.to_owned();
    let for_host = open.replace("allow_any_host = true", &format!("hosts = [{HOST:?}]"));
    let host = format!("[[host]]\nnqn = {HOST:?}\ndhchap_key = \"a\"\n");
    assert!(Config::parse(&format!("{open}{SECURITY}")).is_ok());
    assert!(Config::parse(&format!("{for_host}{host}")).is_ok());
    let made_keys = "[security]\nconcat = true\ntls = \"required\"\n";
    assert!(Config::parse(&format!("{open}{made_keys}{host}")).is_ok(), "a host can make its key for TLS");
    for (text, field, what) in [
        (format!("{open}[security]\nauthentication = \"perhaps\"\n"), "security.authentication", "perhaps"),
        (format!("{open}[security]\ndhchap_hash = []\n"), "security.dhchap_hash", "no host could prove"),
        (format!("{open}[security]\ndhchap_hash = [\"md5\"]\n"), "security.dhchap_hash", "sha256"),
        (
            format!("{open}[security]\ndhchap_group = [\"null\", \"null\"]\n"),
            "security.dhchap_group",
            "is there twice",
        ),
        (
            format!("{open}[security]\nauthentication = \"required\"\n"),
            "security.authentication",
            "none can connect",
        ),
        (
            format!("{open}[security]\nauthentication = \"off\"\n{host}"),
            "security.authentication",
            "have keys",
        ),
        (format!("{open}[security]\ndiscovery = \"hosts\"\n"), "security.discovery", "none would see"),
        (format!("{open}[security]\nconcat = \"yes\"\n"), "security.concat", "true"),
        (format!("{open}[security]\nconcat = true\ntls = \"optional\"\n"), "security.concat", "no host with"),
        (format!("{open}[security]\nconcat = true\n{host}"), "security.concat", "no host with a dhchap_key"),
        (
            format!(
                "{open}[security]\nconcat = true\ntls = \"optional\"\n[[host]]\nnqn = {HOST:?}\ntls_key = [\"a\"]\n"
            ),
            "security.concat",
            "no host with a dhchap_key",
        ),
        (
            format!("{open}[subsystem.security]\nauthentication = \"off\"\n{made_keys}{host}"),
            "security.concat",
            "asks for proofs",
        ),
        (
            format!("{open}{made_keys}dhchap_hash = [\"sha512\"]\n{host}"),
            "security.concat",
            "no cipher suite",
        ),
        (format!("{open}{made_keys}dhchap_group = [\"null\"]\n{host}"), "security.concat", "without a group"),
        (
            format!("{open}[security]\ntls = \"required\"\n{host}"),
            "security.tls",
            "has a key for TLS, so none can connect",
        ),
        (
            format!("{open}[subsystem.security]\nauthentication = \"off\"\n{host}"),
            "subsystem[0].security.authentication",
            "lets everyone in",
        ),
        (format!("{open}{host}{host}"), "host[1].nqn", "two [[host]] tables"),
        (
            format!("{open}[[host]]\nnqn = \"db1\"\ndhchap_key = \"a\"\n"),
            "host[0].nqn",
            "not an NVMe qualified name",
        ),
        (format!("{for_host}{}", host.replace(":host", ":other")), "host[0].nqn", "no subsystem allows"),
        (format!("{open}[[host]]\nnqn = {HOST:?}\n"), "host[0].dhchap_key", "has no key"),
        (
            format!("{open}[[host]]\nnqn = {HOST:?}\ndhchap_key_next = \"a\"\n"),
            "host[0].dhchap_key",
            "is missing",
        ),
        (format!("{open}{}", host.replace("\"a\"", "\"\"")), "host[0].dhchap_key", "the path is empty"),
        (format!("{open}[[host]]\nnqn = {HOST:?}\nkey = \"a\"\n"), "host[0].key", "dhchap_key"),
    ] {
        let found = errors(&text);
        let line = found.lines().find(|line| line.contains(&format!(": {field}: ")));
        assert!(line.is_some_and(|line| line.contains(what)), "{field}, {what}: {found}");
        assert!(found.starts_with("g.toml:"), "it has a line: {found}");
    }
}

#[test]
fn the_example_file_is_valid() {
    let config = Config::parse(EXAMPLE).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(config.devices.len(), 6);
    assert!(config.check().is_ok());
}

#[test]
fn what_is_written_reads_back() {
    let faults = r#"
[[device.fault]]
kind = "torn"
then = "gone"
chance = 0.125
[[device.fault]]
kind = "hang"
release_at = 7
op = "write-zeroes"
every = 3
from = "1500us"
"#;
    let faulty = SMALLEST.replace("size = \"1G\"\n", &format!("size = \"1G\"\n{faults}"));
    let large = format!("{SMALLEST}[limits]\nhang_after = \"18446744073709551615ns\"\n");
    let secured = format!(
        "{}\n[subsystem.security]\nauthentication = \"always\"\n{SECURITY}",
        SMALLEST.replace("allow_any_host = true", &format!("hosts = [{HOST:?}]"))
    );
    let without = format!("{SMALLEST}[admin]\nsocket = \"none\"\n");
    let with = format!(
        "{SMALLEST}[admin]\nsocket = \"/run/a.sock\"\nlisten = \"[::]:8\"\ncertificate = \"/c\"\nkey = \"/k\"\nread_token = \"/r\"\nadmin_token = \"/a\"\n[metrics]\nlisten = \"[::1]:9\"\npairs_max = 7\n"
    );
    let volume = format!("{}tenant = \"namespace\"\nlimit_rate = \"9M\"\n", SMALLEST);
    for text in [EXAMPLE, SMALLEST, &faulty, &large, &secured, &without, &with, &volume] {
        let config = Config::parse(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let written = config.to_toml().expect("a text has paths of UTF-8");
        assert_eq!(Config::parse(&written).as_ref(), Ok(&config), "{written}");
    }
    let file = |path: std::ffi::OsString| DeviceKind::File {
        path: path.into(),
        size: None,
        create: false,
        direct: true,
    };
    let odd = std::os::unix::ffi::OsStringExt::from_vec(vec![b'/', 0xff]);
    let error = Config::simple(file(odd), DEFAULT_LISTEN).to_toml().expect_err("no text has that path");
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

/// Every row is in the example, and refuses another type and values directly outside its bounds by its own name.
#[test]
fn every_numeric_field_is_read_checked_and_written_by_its_row() {
    let written = |rows: &[(&'static str, bool)]| rows.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let limits: Vec<_> = limits::FIELDS.iter().map(|row| (row.name, row.is_live)).collect();
    let at_start: Vec<_> = limits.iter().filter(|(_, is_live)| !is_live).copied().collect();
    assert_eq!(written(&at_start), ["queue_depth", "io_queues", "transfer_max"]);
    let text = Config::parse(EXAMPLE).expect("valid").to_toml().expect("paths of UTF-8");
    for name in written(&limits) {
        assert!(text.contains(&format!("\n{name} = ")), "{name} is in the example, and written");
        let wrong = SMALLEST.to_owned() + &format!("[limits]\n{name} = true\n");
        assert!(errors(&wrong).contains(&format!("limits.{name}: true is not")), "{}", errors(&wrong));
    }
    let mut outside = 0;
    let mut refused = |table: &str, field: &str, name: &str, value: &toml::Value| {
        let text = format!("{SMALLEST}{table}\n{name} = {value}\n");
        assert!(errors(&text).contains(&format!("{field}.{name}: ")), "{name} = {value}: {}", errors(&text));
        outside += 1;
    };
    for row in limits::FIELDS {
        row.beyond().iter().for_each(|value| refused("[limits]", "limits", row.name, value));
    }
    let tenant = "[[tenant]]\nhost = \"nqn.2025-01.io.example:b\"";
    for row in tenant::FIELDS {
        row.beyond().iter().for_each(|value| refused(tenant, "tenant[0]", row.name, value));
    }
    let slo = format!("{tenant}\n[tenant.slo]\nlatency_p99 = \"1ms\"");
    refused(&slo, "tenant[0].slo", "iops", &tenant::SLO_FIELDS[0].beyond()[0]);
    assert!(outside > 20, "{outside} values");
}

#[test]
fn an_address_is_a_text_or_a_table() {
    let parsed = |listen: &str| Config::parse(&format!("listen = {listen}\n{SMALLEST}"));
    let address = |text: &str| Listen::from(text.parse::<SocketAddr>().expect("an address"));
    let both = parsed(r#"["127.0.0.1:1", { address = "[::1]:2", transport = "tcp" }]"#).expect("valid");
    assert_eq!(both.listen, [address("127.0.0.1:1"), address("[::1]:2")]);
    for (listen, expected) in [
        (r#"[{ address = "nowhere" }]"#, "listen[0].address: \"nowhere\" is not an address such as"),
        (r#"["127.0.0.1:1", { transport = "tcp" }]"#, "listen[1].address: is missing"),
        (r#"[{ address = "127.0.0.1:1", transport = "fc" }]"#, "listen[0].transport: \"fc\" is not \"tcp\""),
        (r#"[{ address = "127.0.0.1:1", tls = true }]"#, "listen[0].tls: unknown field"),
        (r#"[7]"#, "listen: this array is not a list of addresses"),
        (r#""127.0.0.1:1""#, "listen: \"127.0.0.1:1\" is not a list of addresses"),
    ] {
        let problems = parsed(listen).expect_err("wrong");
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(shown.len() == 1 && shown[0].starts_with(expected), "{shown:?}");
    }
}

#[test]
fn more_series_than_there_can_be_pairs_are_refused() {
    let with = |pairs: &str| format!("{SMALLEST}[metrics]\npairs_max = {pairs}\n");
    assert_eq!(Config::parse(SMALLEST).expect("valid").metrics.pairs_max, 1000);
    assert_eq!(Config::parse(&with("0")).expect("valid").metrics.pairs_max, 0);
    for wrong in ["65537", "-1", "\"many\""] {
        let found = errors(&with(wrong));
        assert!(found.starts_with("g.toml:14: metrics.pairs_max: "), "{found}");
    }
}

#[test]
fn a_number_that_no_file_can_have_is_refused_by_name() {
    let config = Config::parse(SMALLEST).expect("valid");
    let refused = |change: fn(&mut Config)| {
        let mut changed = config.clone();
        change(&mut changed);
        changed.check().expect_err("it is beyond TOML's integers").to_string()
    };
    let fault = refused(|config| {
        config.devices[0].faults = vec![FaultConfig { skip: 1 << 63, ..FaultConfig::new(FaultKind::Gone) }];
    });
    assert!(fault.starts_with("device[0].fault[0].skip: 9223372036854775808 is more than"), "{fault}");
    let limit = refused(|config| {
        let host = "nqn.2025-01.io.example:b";
        config.tenants =
            vec![TenantConfig::with(host, ShareConfig { limit_iops: Some(1 << 63), ..ShareConfig::EQUAL })];
    });
    assert!(limit.starts_with("tenant[0].limit_iops: 9223372036854775808 is more than"), "{limit}");
}

#[test]
fn what_a_file_leaves_out_has_its_default() {
    let config = Config::parse(SMALLEST).expect("valid");
    assert_eq!(config.listen, vec![DEFAULT_LISTEN.into()]);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.devices[0].scheduler.policy, Scheduler::LEVEL);
    assert_eq!(config.subsystems[0].namespaces[0], NamespaceConfig::whole(1, "a"));
}

#[test]
fn only_what_keeps_data_is_offered_to_volumes() {
    let nqn = Config::parse(SMALLEST).expect("valid").subsystems[0].nqn.clone();
    let kept = |text: &str| {
        let mut config = Config::parse(SMALLEST).expect("valid");
        config.devices[0].kind = match text {
            "null" => DeviceKind::Null { size: Bytes::gib(1) },
            _ => {
                DeviceKind::File { path: text.into(), size: Some(Bytes::gib(1)), create: true, direct: true }
            }
        };
        config.rack = Some(RackConfig::new("store", "one", &[&nqn]));
        config.check()
    };
    assert!(kept("image").is_ok());
    let problem = kept("null").expect_err("a null device keeps nothing").to_string();
    assert!(problem.contains("forgets"), "{problem}");
    let wrong = "\n[rack]\nstore = \"\"\nname = \"a/b\"\nsubsystems = [\"nqn.2025-01.x:y\"]\nmega = \"3K\"\nttl = \"1ms\"\naddress = \"0.0.0.0:1\"";
    let found = errors(&format!("{SMALLEST}{wrong}"));
    for name in ["store", "name", "subsystems", "mega", "ttl", "address"] {
        assert!(found.contains(&format!("rack.{name}")), "rack.{name} is not reported:\n{found}");
    }
    let other = errors(&format!("{SMALLEST}{}", wrong.replace("store = \"\"", "store = \"http://a:1\"")));
    assert!(other.contains("rack.store"), "{other}");
}

#[test]
fn clients_reach_a_rack_over_each_transport_that_it_listens_on() {
    let check = |listen: &[&str], address: Option<&str>, rdma_address: Option<&str>| {
        let mut config = Config::parse(SMALLEST).expect("valid");
        config.devices[0].kind =
            DeviceKind::File { path: "image".into(), size: Some(Bytes::gib(1)), create: true, direct: true };
        config.listen = listen.iter().map(|text| text.parse().expect("an address")).collect();
        let parse = |text: &str| text.parse().expect("an address");
        let mut rack = RackConfig::new("store", "one", &[&config.subsystems[0].nqn]);
        (rack.address, rack.rdma_address) = (address.map(parse), rdma_address.map(parse));
        config.rack = Some(rack.clone());
        let reached =
            [Transport::Tcp, Transport::Rdma].map(|transport| rack.reached(&config.listen, transport));
        config.check().map(|_| reached.map(|address| address.map(|address| address.to_string())))
    };
    let text = |text: &str| Some(text.to_owned());
    let both = ["rdma://192.0.2.7:4420", "192.0.2.8:4421"];
    let found = check(&both, None, None).expect("valid");
    assert_eq!(found, [text("192.0.2.8:4421"), text("192.0.2.7:4420")]);
    assert_eq!(check(&both[..1], None, None).expect("valid"), [None, text("192.0.2.7:4420")]);
    assert_eq!(check(&both[1..], None, None).expect("valid"), [text("192.0.2.8:4421"), None]);
    let open = ["rdma://0.0.0.0:4420", "192.0.2.8:4421"];
    let found = check(&open, None, Some("192.0.2.9:4420")).expect("valid");
    assert_eq!(found, [text("192.0.2.8:4421"), text("192.0.2.9:4420")]);
    let problem = check(&open, None, None).expect_err("nobody connects to that").to_string();
    assert!(problem.contains("rack.rdma_address: is missing"), "{problem}");
    let problem = check(&both[1..], None, Some("192.0.2.9:4420")).expect_err("nobody listens").to_string();
    assert!(
        problem.contains("rack.rdma_address: is there, but `listen` has no address over RDMA"),
        "{problem}"
    );
    let problem = check(&both[..1], Some("192.0.2.9:0"), None).expect_err("no port").to_string();
    assert!(problem.contains("rack.address: is no address to connect to"), "{problem}");
}

#[test]
fn groups_have_numbers_of_their_own_that_stay() {
    let group = |name: &str, id: Option<u32>| GroupConfig {
        name: name.to_owned(),
        id,
        state: AccessState::default(),
    };
    let numbers = |groups: Vec<GroupConfig>| -> Vec<Option<u32>> {
        let device = DeviceKind::Null { size: Bytes::gib(1) };
        let config = Config { groups, ..Config::simple(device, DEFAULT_LISTEN) };
        config.numbered_groups().into_iter().map(|(_, id)| id).collect()
    };
    let alone = |name: &str| numbers(vec![group(name, None)])[0];
    let left = alone("left");
    let mut others = ["right", "middle", "top"].into_iter();
    let other = others.find(|name| alone(name) != left).expect("they have not all the same number");
    assert_eq!(numbers(vec![group(other, None), group("left", None)]), [alone(other), left]);
    let with_chosen = numbers(vec![group(other, None), group("chosen", left), group("left", None)]);
    assert_eq!(with_chosen[..2], [alone(other), left]);
    assert!(!with_chosen[..2].contains(&with_chosen[2]), "{with_chosen:?}");
    let mut all = numbers((0..31).map(|index| group(&index.to_string(), None)).collect());
    all.sort_unstable();
    assert!(all.into_iter().eq((2..=32).map(Some)), "1 is that of namespaces without a group");
    assert_eq!(numbers((0..32).map(|index| group(&index.to_string(), None)).collect())[31], None);
}

#[test]
fn every_problem_of_groups_has_its_field() {
    let with = |groups: &str, more: &str| format!("{groups}{SMALLEST}{more}");
    let a = "[[group]]\nname = \"a\"\n";
    for (groups, more, expected) in [
        (
            a.to_owned(),
            "group = \"b\"\n",
            "g.toml:15: subsystem[0].namespace[0].group: no group is called \"b\"; known: a",
        ),
        (
            String::new(),
            "group = \"b\"\n",
            "subsystem[0].namespace[0].group: no group is called \"b\"; write [[group]]",
        ),
        (a.repeat(2), "", "g.toml:4: group[1].name: two groups are called \"a\""),
        (
            format!("{a}id = 3\n[[group]]\nname = \"b\"\nid = 3\n"),
            "",
            "g.toml:6: group[1].id: group \"a\" has the number 3 too",
        ),
        (format!("{a}id = 33\n"), "", "g.toml:3: group[0].id: 33 is not from 1 to 32"),
        (format!("{a}id = 0\n"), "", "group[0].id: 0 is not from 1 to 32"),
        (format!("{a}id = \"one\"\n"), "", "g.toml:3: group[0].id: \"one\" is not a whole number"),
        (format!("{a}state = \"gone\"\n"), "", "g.toml:3: group[0].state: \"gone\" is not \"optimized\" or"),
        (format!("{a}stat = \"gone\"\n"), "", "g.toml:3: group[0].stat"),
        ("[[group]]\n".to_owned(), "", "g.toml:1: group[0].name: is missing"),
    ] {
        let found = errors(&with(&groups, more));
        assert!(found.contains(expected), "{found}");
    }
    let many: String = (0..32).map(|index| format!("[[group]]\nname = \"{index}\"\n")).collect();
    assert!(errors(&with(&many, "")).contains("group[31].name: there are more than 31 groups"));
    assert!(Config::parse(&with(a, "group = \"a\"\n")).is_ok());
}

#[test]
fn blocks_are_erased_for_their_next_owner_only_if_the_file_says_so() {
    let wipes = |text: &str| Config::parse(text).expect("valid").subsystems[0].namespaces[0].wipe_on_remove;
    let with = |value: &str| SMALLEST.replacen("nsid = 1", &format!("nsid = 1\nwipe_on_remove = {value}"), 1);
    assert!(!wipes(SMALLEST));
    assert!(wipes(&with("true")) && !wipes(&with("false")));
    let wrong = errors(&with("\"yes\""));
    assert!(wrong.contains("wipe_on_remove"), "{wrong}");
}

#[test]
fn by_default_there_is_a_thread_per_cpu_that_ssds_memory_and_hosts_can_use() {
    let one = Config::parse(SMALLEST).expect("valid");
    let threads = |config: &Config, processors| config.devices.len() + config.connection_threads(processors);
    assert_eq!([1, 2, 3, 4, 64].map(|processors| threads(&one, processors)), [1, 2, 3, 4, 4]);
    let mut many = one.clone();
    many.devices = vec![one.devices[0].clone(); 8];
    assert_eq!([1, 8, 12, 16, 256].map(|processors| threads(&many, processors)), [8, 8, 12, 16, 16]);
    many.limits.memory = Bytes::gib(4);
    assert_eq!(threads(&many, 256), 32);
    many.limits.connections = 20;
    assert_eq!(threads(&many, 256), 20);
    let set = |threads| Config { threads: Some(threads), ..one.clone() };
    assert_eq!(threads(&set(1), 64), 1);
    assert_eq!(threads(&set(7), 1), 7);
}

#[test]
fn busy_polling_can_be_shortened_or_turned_off() {
    let spin = |text: &str| Config::parse(&format!("spin = \"{text}\"\n{SMALLEST}")).expect("valid").spin;
    assert_eq!(Config::parse(SMALLEST).expect("valid").spin, None);
    assert_eq!(spin("20us"), Some(Nanos::micros(20)));
    assert_eq!(spin("0us"), Some(Nanos::ZERO));
    let long = errors(&format!("spin = \"1s\"\n{SMALLEST}"));
    assert!(long.contains("spin") && long.contains("longer than 10ms"), "{long}");
}

#[test]
fn what_polling_and_nvme_commands_cannot_do_without_is_told() {
    let with = |backend: &str, device: &str| {
        let rest = SMALLEST.split_once("[[subsystem]]").expect("it has one").1;
        errors(&format!("backend = \"{backend}\"\n[[device]]\nname = \"a\"\n{device}\n[[subsystem]]{rest}"))
    };
    let polled = "kind = \"block\"\npath = \"/dev/x\"\npolled = true";
    let found = with("auto", &format!("{polled}\ndirect = false"));
    assert!(found.contains("device[0].polled: a device is polled for direct IO only"), "{found}");
    let found = with("epoll", polled);
    assert!(found.contains("device[0].polled: polling needs io_uring"), "{found}");
    let found = with("epoll", "kind = \"nvme\"\npath = \"/dev/ng0n1\"");
    assert!(found.contains("device[0].kind: NVMe commands need io_uring"), "{found}");
    let found = with("auto", "kind = \"nvme\"\npath = \"/dev/ng0n1\"\ndirect = true");
    assert!(found.contains("device[0].direct: unknown field"), "{found}");
}

#[test]
fn the_configuration_of_the_flags_is_valid() {
    let null = DeviceKind::Null { size: Bytes::gib(1) };
    Config::simple(null, "127.0.0.1:0".parse().expect("an address")).check().expect("valid");
}

#[test]
fn every_problem_is_found_at_once() {
    let text = r#"
listen = ["nowhere"]
[[device]]
name = "a"
kind = "null"
size = "1Q"
colour = "red"
[[device]]
name = "a"
kind = "emulated"
size = "10001"
speed = 0
[[subsystem]]
nqn = "example"
[[subsystem.namespace]]
nsid = 1
device = "b"
block_size = 520
"#;
    let errors = errors(text);
    for expected in [
        "g.toml:2: listen: ",
        "g.toml:6: device[0].size: \"1Q\" is not a size",
        "g.toml:7: device[0].colour: unknown field; known fields: name, kind, size, read_only, scheduler",
        "g.toml:9: device[1].name: two devices are called \"a\"",
        "g.toml:11: device[1].size: 10001 B is not a multiple of 4 KiB",
        "g.toml:12: device[1].speed: 0 is not a factor",
        "g.toml:13: subsystem[0].hosts: no host may connect",
        "g.toml:14: subsystem[0].nqn: \"example\" is not an NVMe qualified name",
        "g.toml:17: subsystem[0].namespace[0].device: no device is called \"b\"",
        "g.toml:18: subsystem[0].namespace[0].block_size: blocks of 520 bytes are not possible",
    ] {
        assert!(errors.contains(expected), "missing {expected:?} in:\n{errors}");
    }
    assert_eq!(errors.lines().count(), 10, "{errors}");
}

#[test]
fn a_file_that_is_not_toml_says_where() {
    let errors = errors("listen = [\n\"127.0.0.1:1\"\n[[device]\n");
    assert!(errors.contains("g.toml:3: "), "{errors}");
    assert!(errors.contains("not TOML"), "{errors}");
    let about_toml = errors.lines().all(|line| line.contains("not TOML"));
    assert!(about_toml, "something is said about what was not read: {errors}");
}

#[test]
fn a_key_of_too_many_parts_is_told_with_its_line() {
    // The parser says nothing of its place.
    let key = ["a"; 100].join(".");
    for (text, line) in [(format!("{key} = 1\nb = 1\n"), 1), (format!("b = [\n1]\n{key} = 2"), 3)] {
        let errors = errors(&text);
        assert!(errors.contains(&format!("g.toml:{line}: ")), "{errors}");
    }
}

#[test]
fn what_is_no_table_is_not_passed_over() {
    for (devices, shown) in [("[1, {}]", "1"), ("[{}, \"b\"]", "\"b\""), ("[]", "this array"), ("3", "3")] {
        let errors = errors(&format!("device = {devices}\n"));
        assert!(errors.contains(&format!("g.toml:1: device: {shown} is not a table")), "{errors}");
    }
}

#[test]
fn a_name_cannot_forge_lines() {
    let errors = errors(&format!("\"a\\nb\" = 1\n\"\" = 2\n{SMALLEST}"));
    let expected = ["g.toml:1: \"a\\nb\": unknown field", "g.toml:2: \"\": unknown field"];
    assert!(expected.iter().all(|line| errors.contains(line)), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
}

#[test]
fn names_that_are_listed_cannot_forge_lines_either() {
    let text = "[[device]]\nname = \"a\\nb\"\nkind = \"null\"\nsize = \"1G\"\n\
                [[subsystem]]\nnqn = \"nqn.2025-01.io.example:b\"\n\
                [[subsystem.namespace]]\nnsid = 1\ndevice = \"c\"\n";
    let errors = errors(text);
    assert!(errors.contains("known: a\\nb"), "{errors}");
}

#[test]
fn an_absent_field_is_reported_on_the_line_of_its_table() {
    let errors = errors(&SMALLEST.replace("size = \"1G\"\n", ""));
    assert!(errors.contains("g.toml:2: device[0].size: is missing"), "{errors}");
}

#[test]
fn namespaces_may_share_a_device_but_not_its_blocks() {
    let second = "[[subsystem.namespace]]\nnsid = 2\ndevice = \"a\"\noffset = \"512M\"\n";
    let errors = errors(&format!("{SMALLEST}{second}"));
    assert!(errors.contains("the blocks overlap with those of subsystem[0].namespace[0]"), "{errors}");
    Config::parse(&format!("{SMALLEST}size = \"512M\"\n{second}")).expect("side by side");
}

#[test]
fn a_namespace_ends_within_its_device() {
    let errors = errors(&format!("{SMALLEST}size = \"2G\"\n"));
    assert!(errors.contains("the namespace ends at 2 GiB, device \"a\" at 1 GiB"), "{errors}");
}

#[test]
fn only_writes_are_torn_or_volatile() {
    for kind in ["torn", "volatile"] {
        let device = "[[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n[[device.fault]]";
        let fault = |op| errors(&format!("{device}\nkind = \"{kind}\"\nop = \"{op}\"\n"));
        let wrong = format!("g.toml:7: device[0].fault[0].op: only writes are {kind}");
        assert!(fault("read").contains(&wrong), "{}", fault("read"));
        assert!(!fault("write").contains("fault[0]"), "{}", fault("write"));
    }
}

#[test]
fn the_scheduler_is_a_word_or_a_table() {
    let word = SMALLEST.replace("kind = ", "scheduler = \"none\"\nkind = ");
    assert_eq!(Config::parse(&word).expect("valid").devices[0].scheduler.policy, Scheduler::NONE);
    let table = SMALLEST
        .replace("kind = ", "scheduler = { policy = \"gimbal\", slots = 16, thresh_max = \"2ms\" }\nkind = ");
    let overrides = &Config::parse(&table).expect("valid").devices[0].scheduler.overrides;
    assert_eq!((overrides.slots, overrides.thresh_max), (Some(16), Some(Nanos::millis(2))));
}

#[test]
fn an_objective_has_one_bound() {
    let with = |slo: &str| {
        format!("{SMALLEST}[[tenant]]\nhost = \"nqn.2014-08.org.example:a\"\n[tenant.slo]\n{slo}\n")
    };
    let slo = |text: &str| {
        let config = Config::parse(&with(text)).expect("valid");
        config.tenants[0].share.slo.expect("it is written")
    };
    let p99 = slo("iops = 2000\nlatency_p99 = \"500us\"");
    assert_eq!((p99.percentile, p99.latency, p99.read_percent), (Percentile::P99, Nanos::micros(500), 100));
    assert_eq!(slo("iops = 2000\nlatency_p95 = \"1ms\"").percentile, Percentile::P95);
    for (text, said) in [
        ("iops = 2000", "tenant[0].slo.latency_p99: is missing; write latency_p99 = \"1ms\""),
        (
            "iops = 2000\nlatency_p95 = \"1ms\"\nlatency_p99 = \"1ms\"",
            "tenant[0].slo.latency_p95: an objective has one bound, and latency_p99 is there, too; keep",
        ),
        ("iops = 2000\nlatency_p99 = \"0ms\"", "tenant[0].slo.latency_p99: no IO takes no time; write"),
        ("iops = 0\nlatency_p99 = \"1ms\"", "tenant[0].slo.iops: zero promises nothing"),
    ] {
        let errors = errors(&with(text));
        assert!(errors.contains(said), "{text}: {errors}");
    }
}

#[test]
fn gimbal_as_published_has_a_name_and_costs_may_be_fractions() {
    let with = |scheduler: &str| SMALLEST.replace("kind = ", &format!("scheduler = {scheduler}\nkind = "));
    let word = Config::parse(&with("\"gimbal\"")).expect("valid");
    assert_eq!(word.devices[0].scheduler.policy, Scheduler::GIMBAL);
    let table = with(
        "{ policy = \"level-calibrated\", calibration = \"c\", write_cost_best = 2.5, write_cost_worst = 9, lag_max = \"1M\" }",
    );
    let overrides = &Config::parse(&table).expect("valid").devices[0].scheduler.overrides;
    assert_eq!(overrides.write_cost_best, Some(Cost::ratio(5, 2)));
    assert_eq!(overrides.write_cost_worst, Some(Cost::ratio(9, 1)));
    assert_eq!(overrides.lag_max, Some(Bytes::mib(1)));
    for (cost, expected) in
        [("0.5", "costs no less"), ("70000", "a factor such as"), ("2.0001", "a factor such as")]
    {
        let error = errors(&with(&format!("{{ policy = \"gimbal\", write_cost_best = {cost} }}")));
        assert!(error.contains(expected), "{cost}: {error}");
    }
}

#[test]
fn what_a_scheduler_does_not_read_is_refused() {
    let with = |scheduler: &str| SMALLEST.replace("kind = ", &format!("scheduler = {scheduler}\nkind = "));
    for (scheduler, expected) in [
        (
            "{ policy = \"level\", calibration = \"c.toml\" }",
            "device[0].scheduler: level measures the device by itself and reads no calibration; leave the calibration out, \
             or choose level-calibrated",
        ),
        (
            "{ policy = \"gimbal\", prior = \"profile.toml\" }",
            "device[0].scheduler.prior: gimbal learns nothing and reads no prior; remove it, or write policy = \"level\"",
        ),
        ("{ policy = \"io-cost\" }", "device[0].scheduler.policy: \"io-cost\" is not"),
    ] {
        let errors = errors(&with(scheduler));
        assert!(errors.contains(expected), "{scheduler}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_constant_that_only_some_schedulers_read_is_refused_under_the_others() {
    let with = |scheduler: &str| SMALLEST.replace("kind = ", &format!("scheduler = {scheduler}\nkind = "));
    for (name, policy) in [("gimbal", "policy = \"gimbal\", "), ("level", "")] {
        let errors = errors(&with(&format!("{{ {policy}lag_max = \"1M\" }}")));
        let expected =
            format!("the scheduler \"{name}\" does not read it; remove it, or choose level-calibrated");
        assert!(errors.contains(&expected), "{errors}");
    }
    Config::parse(&with("{ policy = \"level-calibrated\", calibration = \"c\", lag_max = \"1M\" }"))
        .expect("this one reads it");
}

#[test]
fn numbers_that_would_overflow_are_refused_by_name() {
    let emulated = SMALLEST.replace("kind = \"null\"", "kind = \"emulated\"");
    let in_device = |line: &str| emulated.replace("name = \"a\"", &format!("name = \"a\"\n{line}"));
    for (text, expected) in [
        (
            in_device("scheduler.rate_max = \"2T\""),
            "device[0].scheduler.rate_max: 2199023.3 MB/s is more than",
        ),
        (
            in_device("scheduler.rate_min = \"2T\""),
            "device[0].scheduler.rate_min: 2199023.3 MB/s is more than",
        ),
        (
            in_device("scheduler.thresh_min = \"61m\""),
            "device[0].scheduler.thresh_min: 3660.00 s is more than",
        ),
        (
            in_device("scheduler.thresh_max = \"61m\""),
            "device[0].scheduler.thresh_max: 3660.00 s is more than",
        ),
        (in_device("scheduler.slots = 65537"), "device[0].scheduler.slots: 65537 is more than 65536"),
        (
            in_device("scheduler.lag_max = \"2T\""),
            "device[0].scheduler.lag_max: 2048 GiB is more than 1024 GiB",
        ),
        (in_device("speed = 100.001"), "device[0].speed: 100.001 is more than 100"),
        (emulated.replace("1G", "5T"), "device[0].size: 5120 GiB is more than 4096 GiB"),
        (SMALLEST.replace("1G", "1048577T"), "device[0].size: 1073742848 GiB is more than 1073741824 GiB"),
        (format!("{SMALLEST}offset = \"1048577T\""), "namespace[0].offset: 1073742848 GiB is more than"),
        (format!("{SMALLEST}size = \"1048577T\""), "namespace[0].size: 1073742848 GiB is more than"),
        (format!("{SMALLEST}[limits]\nstall_timeout = \"3ns\""), "limits.stall_timeout: 3 ns disconnects"),
        (format!("{SMALLEST}[limits]\nhang_after = \"3ns\""), "limits.hang_after: 3 ns is shorter than"),
    ] {
        let errors = errors(&text);
        let found = errors.lines().any(|line| line.starts_with("g.toml:") && line.contains(expected));
        assert!(found, "missing {expected:?} in:\n{errors}");
    }
}

#[test]
fn a_log_level_that_logging_would_refuse_is_a_problem_of_its_line() {
    let with = |level: &str| format!("{SMALLEST}[log]\nlevel = {level:?}\n");
    for level in ["info", "warn,server=debug", ""] {
        let config = Config::parse(&with(level)).unwrap_or_else(|problems| panic!("{level:?}: {problems:?}"));
        assert!(config.log.filter().is_ok());
    }
    let errors = errors(&with("server=loud"));
    assert!(errors.starts_with("g.toml:14: log.level: \"server=loud\" is not a log filter: "), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn two_namespaces_never_share_an_identifier() {
    let more = r#"
[[subsystem]]
nqn = "nqn.2025-01.io.example:b"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
device = "b"
nguid = "0000000000000000025043fe0c1b2a39"
eui64 = "025043fe0c1b2a39"
[[subsystem.namespace]]
nsid = 2
device = "c"
NAME = "VALUE"
"#;
    let devices =
        ["b", "c"].map(|name| format!("[[device]]\nname = \"{name}\"\nkind = \"null\"\nsize = \"1G\"\n"));
    let text = |name: &str, value: &str| {
        format!("{SMALLEST}{}{}", devices.concat(), more.replace("NAME", name).replace("VALUE", value))
    };
    let valid = Config::parse(&text("nguid", "0000000000000000025043fe0c1b2a3a")).expect("all differ");
    assert_eq!(valid.subsystems[1].namespaces[1].nguid.map(|nguid| nguid[15]), Some(0x3a));
    for (name, value) in [
        ("nguid", "0000000000000000025043fe0c1b2a39"),
        ("eui64", "025043fe0c1b2a39"),
        // The UUID that is derived for the namespace of the first subsystem.
        ("uuid", &derived_uuid("nqn.2025-01.io.example:a")),
    ] {
        let told = errors(&text(name, value));
        let field = format!("subsystem[1].namespace[1].{name}: ");
        assert!(told.contains(&field) && told.contains("take them for one disk"), "{told}");
    }
    let told = errors(&text("eui64", "25043fe0c1b2a39"));
    assert!(told.contains("write an EUI64: 16 hexadecimal digits"), "{told}");
}

fn derived_uuid(nqn: &str) -> String {
    let ids = crate::identity::Identifiers::of(nqn, &NamespaceConfig::whole(1, "a"));
    ids.uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_largest_transfer_is_16_mib() {
    let limits = |most: &str| {
        format!(
            "{SMALLEST}[limits]\nmemory = \"4G\"\nmemory_per_connection = \"64M\"\ntransfer_max = \"{most}\"\n"
        )
    };
    let config = Config::parse(&limits("16M")).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(config.check().is_ok());
    let told = errors(&limits("32M"));
    assert!(told.contains("limits.transfer_max: 32 MiB is not a power of two"), "{told}");
}

/// The warnings for a device in the file `name` of the folder for temporary files.
fn warnings_of_a_file(name: &str, create: bool) -> Vec<String> {
    let path = std::env::temp_dir().join(name);
    let device = format!("kind = \"file\"\npath = \"{}\"\ncreate = {create}\nsize = \"1M\"", path.display());
    let config = Config::parse(&SMALLEST.replacen("kind = \"null\"\nsize = \"1G\"", &device, 1));
    config.unwrap_or_else(|problems| panic!("{problems:#?}")).warnings()
}

#[test]
fn a_file_that_is_missing_is_a_warning_unless_it_may_be_made() {
    let name = format!("gimbal-config-missing-{}", std::process::id());
    let of = |create| {
        let warnings = warnings_of_a_file(&name, create);
        warnings.iter().filter(|warning| warning.contains("a target cannot start with this here")).count()
    };
    assert_eq!([of(false), of(true)], [1, 0]);
}

#[test]
fn a_sparse_file_that_its_file_system_has_room_for_is_no_warning() {
    let name = format!("gimbal-config-sparse-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    std::fs::File::create(&path)
        .and_then(|file| file.set_len(1 << 20))
        .expect("temporary files can be written");
    let warnings = warnings_of_a_file(&name, false);
    std::fs::remove_file(&path).expect("it was just written");
    assert!(!warnings.iter().any(|warning| warning.contains("a target cannot start")), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.contains("free")), "{warnings:?}");
}

#[test]
fn subsystems_have_serial_numbers_that_tell_them_apart() {
    let with = |serials: [&str; 2]| {
        let mut config = Config::parse(SMALLEST).expect("valid");
        config.devices.push(DeviceConfig { name: "other".to_owned(), ..config.devices[0].clone() });
        config.devices[1].kind = DeviceKind::Null { size: Bytes::gib(1) };
        config.subsystems.push(config.subsystems[0].clone());
        config.subsystems[1].nqn = "nqn.2025-01.io.example:second".to_owned();
        config.subsystems[1].namespaces[0].device = "other".to_owned();
        for (subsystem, serial) in config.subsystems.iter_mut().zip(serials) {
            subsystem.serial = (serial != "none").then(|| serial.to_owned());
        }
        config.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(with(["none", "none"]), "");
    assert_eq!(with(["A1", "A2"]), "");
    for same in [["A1", "A1"], ["A1", "A1  "]] {
        let said = with(same);
        assert!(
            said.contains("subsystem[1].serial") && said.contains("has the serial number \"A1\" too"),
            "{said}"
        );
    }
    let derived = crate::identity::serial("nqn.2025-01.io.example:second");
    assert!(
        with([&derived, "none"]).contains("subsystem[1].serial"),
        "one that is made of an NQN counts too"
    );
    for blank in ["", "   "] {
        let said = with([blank, "A2"]);
        assert!(said.contains("subsystem[0].serial") && said.contains("is blank"), "{said}");
    }
}

#[test]
fn the_range_of_controller_identifiers_is_written_as_it_was_read_and_stays() {
    let with = |line: &str| SMALLEST.replace("[[subsystem]]", &format!("[[subsystem]]\n{line}"));
    let all = Config::parse(SMALLEST).expect("valid");
    let upper = Config::parse(&with("cntlid = \"32768-65519\"")).expect("valid");
    assert_eq!((all.subsystems[0].cntlid.first(), all.subsystems[0].cntlid.last()), (1, 65_519));
    assert_eq!((upper.subsystems[0].cntlid.first(), upper.subsystems[0].cntlid.last()), (32_768, 65_519));
    let text = upper.to_toml().expect("it can be written");
    assert_eq!(Config::parse(&text).expect("valid"), upper);
    for wrong in ["\"0-10\"", "\"1-65520\"", "\"9-8\"", "5"] {
        let problems = Config::parse(&with(&format!("cntlid = {wrong}"))).expect_err(wrong);
        let [problem] = &problems[..] else { panic!("{wrong}: {problems:?}") };
        assert_eq!(problem.field, "subsystem[0].cntlid");
        assert!(problem.what.contains("is not a range of controller identifiers"), "{problem}");
    }
    let problems = transition::problems(&all, &upper, |_| None);
    assert!(
        problems.iter().any(|problem| problem.to_string().contains("subsystem[0].cntlid")),
        "{problems:?}"
    );
}

#[test]
fn namespace_numbers_beyond_the_limit_are_one_sentence_with_the_limit() {
    let mut config = Config::parse(SMALLEST).expect("valid");
    let first = config.subsystems[0].namespaces[0].clone();
    let number = |nsid| NamespaceConfig {
        nsid,
        offset: Bytes::mib(u64::from(nsid)),
        size: Some(Bytes::mib(1)),
        ..first.clone()
    };
    config.devices[0].kind = DeviceKind::Null { size: Bytes::gib(64) };
    config.subsystems[0].namespaces = (1..=6000).map(number).collect();
    let said = config.check().expect_err("too many").to_string();
    assert_eq!(said.matches("largest namespace number").count(), 1, "{said}");
    assert!(said.contains("4097 and 1903 more are beyond the largest namespace number, 4096"), "{said}");
    assert!(!said.contains("count from 1"), "{said}");
}

#[test]
fn a_directory_may_be_empty_and_a_subsystem_may_wait_for_its_hosts() {
    let pool = "listen = [\"127.0.0.1:0\"]\n[[device]]\nname = \"pool\"\nkind = \"directory\"\npath = \"/srv/pool\"\n";
    let subsystem = "[[subsystem]]\nnqn = \"nqn.2025-01.io.example:a\"\nhosts = []\n\
                     [[subsystem.namespace]]\nnsid = 1\ndevice = \"pool\"\nsize = \"1G\"\n";
    let guarded =
        subsystem.replace("hosts = []\n", "hosts = []\nsecurity = { authentication = \"always\" }\n");
    for text in [pool.to_owned(), format!("{pool}{subsystem}"), format!("{pool}{guarded}")] {
        let written = Config::parse(&text).expect("valid").to_toml().expect("paths of UTF-8");
        assert_eq!(written.contains("hosts = []"), text != pool, "{written}");
        Config::parse(&written).expect("it is read again");
    }
    let without = errors(&format!("{pool}{}", subsystem.replace("hosts = []\n", "")));
    assert!(without.contains("g.toml:6: subsystem[0].hosts: no host may connect"), "{without}");
}
