//! Edits of a text with comments.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const TEXT: &str = r#"# The target of the lab.
listen = ["127.0.0.1:0"]  # any port

[limits]
connections = 100         # few
stall_timeout = "30s"

# The only disk.
[[device]]
name = "a"
kind = "null"             # nothing is kept
size = "1G"

[[subsystem]]
nqn = "nqn.2025-01.io.example:one"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1                  # the first
device = "a"
size = "64M"

[[subsystem]]
nqn = "nqn.2025-01.io.example:two"
hosts = ["nqn.2025-01.io.example:h"]
[[subsystem.namespace]]
nsid = 1
device = "a"
offset = "64M"
size = "64M"
"#;
const ONE: &str = "nqn.2025-01.io.example:one";

fn edited(text: &str, path: &str, change: Change) -> Result<String, Refusal> {
    let words: Vec<&str> = path.split('/').collect();
    Edit::Part(Place::of(&words).expect("a path"), change).apply(text)
}

fn done(path: &str, change: Change) -> String {
    edited(TEXT, path, change).unwrap_or_else(|refusal| panic!("{}", refusal.detail))
}

fn shown(text: &str, path: &str) -> Json {
    let words: Vec<&str> = path.split('/').collect();
    read(text, &Place::of(&words).expect("a path")).unwrap_or_else(|refusal| panic!("{}", refusal.detail))
}

#[test]
fn an_edit_leaves_every_other_byte() {
    let limits = done("limits", Change::Merge(json!({ "connections": 200 })));
    assert_eq!(limits, TEXT.replace("connections = 100 ", "connections = 200 "));
    let whole =
        done("config", Change::Merge(json!({ "limits": { "connections": 200, "queue_depth": null } })));
    assert_eq!(whole, limits);
    let device = done("devices/a", Change::Merge(json!({ "size": "2G" })));
    assert_eq!(device, TEXT.replace("size = \"1G\"", "size = \"2G\""));
    let path = format!("subsystems/{ONE}/namespaces/1");
    let namespace = done(&path, Change::Put(json!({ "device": "a", "size": "32M" })));
    assert_eq!(namespace, TEXT.replacen("size = \"64M\"", "size = \"32M\"", 1));
    let listen = done("listen", Change::Put(json!(["127.0.0.1:1", "127.0.0.1:2"])));
    assert_eq!(listen, TEXT.replace("[\"127.0.0.1:0\"]", "[\"127.0.0.1:1\", \"127.0.0.1:2\"]"));
    // The JSON of the whole puts everything where it is.
    assert_eq!(done("config", Change::Put(shown(TEXT, "config"))), TEXT);
}

#[test]
fn an_entry_is_added_after_those_of_its_list_and_removed_without_the_others() {
    let added =
        done(&format!("subsystems/{ONE}/namespaces/2"), Change::Add(json!({ "device": "a", "size": "1M" })));
    let (before, after) =
        added.split_once("[[subsystem.namespace]]\nnsid = 2\ndevice = \"a\"\n").expect("it was added");
    assert!(
        before.contains("nsid = 1                  # the first") && after.contains("example:two"),
        "{added}"
    );
    assert_eq!(shown(&added, &format!("subsystems/{ONE}/namespaces")).as_array().map(Vec::len), Some(2));
    let removed =
        edited(&added, &format!("subsystems/{ONE}/namespaces/2"), Change::Remove).expect("it is there");
    assert_eq!(removed, TEXT);
    let first = done("tenants/h", Change::Add(json!({ "weight": 4, "slo": { "iops": 1000 } })));
    assert!(first.starts_with(TEXT.trim_end()) && first.contains("[[tenant]]\nhost = \"h\"\n"), "{first}");
    assert_eq!(edited(&first, "tenants/h", Change::Remove).expect("it is there").trim_end(), TEXT.trim_end());
}

#[test]
fn what_cannot_be_done_says_what_is_there() {
    for (path, change, status, expected) in [
        ("devices/b", Change::Remove, 404, "there is no device \"b\"; there are a"),
        ("devices/b", Change::Merge(json!({})), 404, "there is no device"),
        ("devices/a", Change::Add(json!({})), 412, "is there already"),
        ("devices/b", Change::Put(json!({ "name": "c" })), 422, "\"c\" in the body and \"b\" in the path"),
        ("devices/b", Change::Put(json!([1])), 422, "no JSON object"),
        ("devices/b", Change::Put(json!({ "size": null })), 422, "size is null"),
        ("devices/b", Change::Put(json!({ "size": u64::MAX })), 422, "beyond the integers of TOML"),
        ("devices", Change::Remove, 405, "one entry at a time"),
        ("config", Change::Remove, 405, "cannot be removed"),
        ("subsystems/x/namespaces/1", Change::Remove, 404, "there is no subsystem \"x\""),
        ("subsystems/nqn.2025-01.io.example:one/namespaces/one", Change::Put(json!({})), 422, "no number"),
    ] {
        let refusal = edited(TEXT, path, change).expect_err(path);
        assert_eq!(refusal.status, status, "{path}: {}", refusal.detail);
        assert!(refusal.detail.contains(expected), "{path}: {:?} lacks {expected:?}", refusal.detail);
    }
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        ".{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::btree_map("[a-z .\"]{1,6}", inner, 0..3)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_put_is_read_again(name in ".{0,12}", fields in prop::collection::btree_map("[a-z]{1,6}", value(), 0..4)) {
        let mut fields: Map<String, Json> = fields.into_iter().collect();
        fields.remove("name");
        let place = || Place::of(&["devices", &name]).expect("a path");
        let put = Edit::Part(place(), Change::Put(Json::Object(fields.clone()))).apply(TEXT).expect("values of TOML");
        fields.insert("name".to_owned(), Json::from(&*name));
        prop_assert_eq!(read(&put, &place()).expect("it was put"), Json::Object(fields.clone()));
        // Once more changes nothing, and everything else is as it was.
        let again = Edit::Part(place(), Change::Put(Json::Object(fields))).apply(&put).expect("as before");
        prop_assert_eq!(&again, &put);
        if name != "a" {
            let removed = Edit::Part(place(), Change::Remove).apply(&put).expect("it is there");
            prop_assert_eq!(removed.trim_end(), TEXT.trim_end());
        }
    }
}
