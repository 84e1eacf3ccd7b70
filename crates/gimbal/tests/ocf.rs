//! The OCF resource agent `packaging/ocf/gimbal-group`, called as a cluster manager calls it, on the nodes of two targets before one back-end.

#![cfg(target_os = "linux")]

#[path = "../../server/tests/common/mod.rs"]
mod common;
mod pair;
mod process;
#[path = "linux/scratch.rs"]
mod scratch;

use common::{BLOCK, Client, Options, pattern, until};
use nvme::spec::Status;
use pair::{Front, GROUP, NQN, Pair};
use roxmltree::{Document, Node, ParsingOptions};
use scratch::Scratch;
use std::env;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/ocf/gimbal-group");

/// Exit codes of the OCF Resource Agent API.
const SUCCESS: i32 = 0;
const ERR_GENERIC: i32 = 1;
const ERR_ARGS: i32 = 2;
const ERR_UNIMPLEMENTED: i32 = 3;
const ERR_INSTALLED: i32 = 5;
const ERR_CONFIGURED: i32 = 6;
const NOT_RUNNING: i32 = 7;

/// A generation that no clock reaches.
const FAR_AHEAD: u64 = 1 << 40;

/// The agent, in an environment that has the binary under test, or no `gimbal` at all.
fn agent(action: &str, has_gimbal: bool) -> Command {
    let mut command = Command::new(AGENT);
    let binary = process::binary();
    let folder = binary.parent().expect("a binary is in a folder").display();
    let path = if has_gimbal { format!("{folder}:/usr/bin:/bin") } else { "/usr/bin:/bin".to_owned() };
    command.arg(action).env_clear().env("PATH", path);
    command
}

/// The exit code, and the reason that the agent gives for a failure.
fn ended(command: &mut Command) -> (i32, String) {
    let output = command.output().expect("the agent is executable");
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code().expect("it has ended by itself"), said)
}

/// Calls the agent of the node of this target, with more parameters.
fn call_with(front: &Front, action: &str, parameters: &[(&str, &str)]) -> (i32, String) {
    let mut command = agent(action, true);
    command.env("OCF_RESKEY_group", GROUP).env("OCF_RESKEY_socket", front.socket());
    for (name, value) in parameters {
        command.env(format!("OCF_RESKEY_{name}"), value);
    }
    ended(&mut command)
}

/// As `call_with`; returns the exit code.
fn call(front: &Front, action: &str) -> i32 {
    let (code, said) = call_with(front, action, &[]);
    println!("{action}: {code} {said}");
    code
}

fn host(address: SocketAddr) -> Client {
    Client::with(address, &Options { subsystem: NQN.to_owned(), ..Options::default() })
}

/// The time of the clock that the agent uses.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs()
}

#[test]
fn meta_data_is_xml_and_describes_every_action_and_parameter() {
    let output = agent("meta-data", false).output().expect("the agent is executable");
    assert_eq!(output.status.code(), Some(SUCCESS), "it needs nothing that is installed");
    let text = String::from_utf8(output.stdout).expect("text");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).unwrap_or_else(|error| panic!("{error}"));
    let root = document.root_element();
    assert_eq!((root.tag_name().name(), root.attribute("name")), ("resource-agent", Some("gimbal-group")));

    let child = |of: Node, name: &str| {
        let text = of.children().find(|node| node.has_tag_name(name)).and_then(|node| node.text());
        text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    assert_eq!(child(root, "version").as_deref(), Some("1.0"));
    let named = |kind: &'static str| root.descendants().filter(move |node| node.has_tag_name(kind));
    let names = |kind| named(kind).filter_map(|node| node.attribute("name")).collect::<Vec<_>>();
    assert_eq!(names("action"), ["start", "stop", "monitor", "meta-data", "validate-all"]);
    for action in named("action") {
        let timeout = action.attribute("timeout").and_then(|time| time.strip_suffix('s'));
        assert!(timeout.is_some_and(|time| time.parse::<u32>().is_ok_and(|time| time > 0)), "{action:?}");
    }
    assert_eq!(names("parameter"), ["group", "socket", "generation", "timeout"]);
    for described in named("parameter").chain([root]) {
        assert!(child(described, "longdesc").is_some(), "{described:?}");
        assert!(child(described, "shortdesc").is_some(), "{described:?}");
    }
    for parameter in named("parameter") {
        let content = parameter.children().find(|node| node.has_tag_name("content"));
        let content = content.unwrap_or_else(|| panic!("{parameter:?} has no content"));
        assert!(matches!(content.attribute("type"), Some("string" | "integer")), "{content:?}");
        assert!(content.has_attribute("default") || parameter.attribute("required") == Some("1"));
    }
}

#[test]
fn a_group_is_taken_over_watched_and_released() {
    let pair = Pair::new("ocf-life");
    let Pair { left, right, .. } = &pair;
    let mut client = host(left.address());
    assert_eq!(call(left, "validate-all"), SUCCESS);
    assert_eq!(call(left, "monitor"), NOT_RUNNING);
    assert_eq!(client.write(1, 0, &pattern(1, BLOCK)), Status::ANA_INACCESSIBLE);

    let before = seconds();
    assert_eq!(call(left, "start"), SUCCESS);
    let generation = left.held().expect("it is held");
    assert!((before..=seconds()).contains(&generation), "{generation}");
    assert_eq!(call(left, "monitor"), SUCCESS);
    assert_eq!(client.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    assert_eq!(call(left, "start"), SUCCESS, "a start of what runs");
    assert_eq!(call(left, "monitor"), SUCCESS);
    assert_eq!(call(right, "monitor"), NOT_RUNNING);

    for _ in 0..2 {
        assert_eq!(call(left, "stop"), SUCCESS);
        assert_eq!(call(left, "monitor"), NOT_RUNNING);
        assert_eq!(client.write(1, 0, &pattern(2, BLOCK)), Status::ANA_INACCESSIBLE);
    }
    // Also within the second of the start before.
    assert_eq!(call(right, "start"), SUCCESS);
    let mut client = host(right.address());
    assert!(client.read(1, 0, 1).expect("it is readable") == pattern(1, BLOCK));
    assert_eq!(call(right, "stop"), SUCCESS);
}

#[test]
fn a_holder_that_lost_the_group_to_another_node_is_not_running() {
    let pair = Pair::new("ocf-lost");
    let Pair { left, right, .. } = &pair;
    let mut client = host(left.address());
    assert_eq!(call(left, "start"), SUCCESS);
    assert_eq!(client.write(1, 7, &pattern(1, BLOCK)), Status::SUCCESS);
    assert_eq!(call(right, "start"), SUCCESS);
    let mut of_right = host(right.address());
    assert_eq!(of_right.write(1, 7, &pattern(2, BLOCK)), Status::SUCCESS);

    let late = client.write(1, 7, &pattern(3, BLOCK));
    assert!(!late.is_success(), "the back-end is fenced");
    until(|| call(left, "monitor") == NOT_RUNNING);
    assert_eq!(call(right, "monitor"), SUCCESS);
    assert!(of_right.read(1, 7, 1).expect("it is readable") == pattern(2, BLOCK));
    assert_eq!(call(left, "stop"), SUCCESS);
    assert!(of_right.read(1, 7, 1).expect("the stop of another node is no matter") == pattern(2, BLOCK));
}

#[test]
fn a_node_whose_clock_is_behind_the_last_holder_is_refused() {
    let pair = Pair::new("ocf-clock");
    let Pair { left, right, .. } = &pair;
    let ahead = FAR_AHEAD.to_string();
    assert_eq!(call_with(left, "start", &[("generation", &ahead)]).0, SUCCESS);
    assert_eq!(left.held(), Some(FAR_AHEAD));
    let (code, said) = call_with(right, "start", &[]);
    assert_eq!(code, ERR_GENERIC, "{said}");
    assert!(said.starts_with("ocf-exit-reason:") && said.contains("clock of this node"), "{said}");
    assert_eq!(call(right, "monitor"), NOT_RUNNING);
    assert_eq!(left.held(), Some(FAR_AHEAD));
    assert_eq!(host(left.address()).write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    let further = (FAR_AHEAD + 1).to_string();
    assert_eq!(call_with(right, "start", &[("generation", &further)]).0, SUCCESS);
}

#[test]
fn a_target_that_is_not_there_has_released_and_one_that_hangs_has_not() {
    let mut pair = Pair::new("ocf-gone");
    let left = &mut pair.left;
    let hurried = [("timeout", "1")];
    assert_eq!(call(left, "start"), SUCCESS);
    left.signal("-STOP");
    for action in ["monitor", "stop", "start", "validate-all"] {
        let (code, said) = call_with(left, action, &hurried);
        assert_eq!(code, ERR_GENERIC, "{action}: {said}");
        assert!(said.contains("has not answered within 1 s"), "{action}: {said}");
    }
    left.signal("-CONT");
    left.kill();
    let results = ["validate-all", "monitor", "stop", "start"].map(|action| call(left, action));
    assert_eq!(results, [SUCCESS, NOT_RUNNING, SUCCESS, ERR_GENERIC]);
    left.restart();
    assert_eq!(call(left, "monitor"), NOT_RUNNING, "a target that was started again holds nothing");
    assert_eq!(call(left, "start"), SUCCESS);
    assert_eq!(call(left, "monitor"), SUCCESS);
}

#[test]
fn wrong_parameters_and_actions_have_their_exit_codes() {
    let pair = Pair::new("ocf-wrong");
    let left = &pair.left;
    for (name, value, word) in [
        ("group", "", "parameter group"),
        ("generation", "soon", "generation"),
        ("generation", "0", "generation"),
        ("generation", "9999999999999999999", "generation"),
        ("timeout", "0", "timeout"),
        ("timeout", "51", "timeout"),
        ("timeout", "1m", "timeout"),
    ] {
        for action in ["validate-all", "start", "monitor", "stop"] {
            let (code, said) = call_with(left, action, &[(name, value)]);
            assert!(code == ERR_CONFIGURED && said.contains(word), "{action} {name}={value}: {code} {said}");
        }
    }
    for action in ["validate-all", "start", "monitor"] {
        let (code, said) = call_with(left, action, &[("group", "other")]);
        assert!(code == ERR_ARGS && said.contains("other"), "{action}: {code} {said}");
    }
    for action in ["", "promote", "reload"] {
        assert_eq!(call(left, action), ERR_UNIMPLEMENTED);
    }
    let mut absent = agent("monitor", false);
    assert_eq!(ended(absent.env("OCF_RESKEY_group", GROUP)).0, ERR_INSTALLED);
    // The manager chooses how a reason begins.
    let (_, said) = ended(agent("start", true).env("OCF_EXIT_REASON_PREFIX", "why: "));
    assert!(said.starts_with("why: the parameter group"), "{said}");
}
