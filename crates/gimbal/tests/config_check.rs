//! `gimbal config check` prints the same problems as the library, for every file that fuzzing has kept.

use server::config::Config;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kept() -> Vec<PathBuf> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let folders = ["corpus/config", "regressions/config"].map(|folder| fuzz.join(folder));
    let read = |folder: &PathBuf| {
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    };
    folders.iter().flat_map(read).map(|entry| entry.expect("a readable folder").path()).collect()
}

#[test]
fn the_command_and_the_library_agree_on_every_kept_file() {
    let files = kept();
    assert!(!files.is_empty());
    for file in files {
        let output = Command::new(env!("CARGO_BIN_EXE_gimbal")).args(["config", "check"]).arg(&file).output();
        let output = output.expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match Config::load(&file) {
            Ok(_) => assert!(output.status.success(), "{}: {said}", file.display()),
            Err(error) => {
                assert_eq!(output.status.code(), Some(1), "{}", file.display());
                assert_eq!(said.trim_end_matches('\n'), error.to_string(), "{}", file.display());
            }
        }
    }
}

fn gimbal(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gimbal")).args(args).output().expect("the command runs");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn every_valid_file_shows_itself_as_a_file_that_means_the_same() {
    let mut shown = 0;
    for file in kept() {
        let Ok(config) = Config::load(&file) else { continue };
        let path = file.to_str().expect("a path of this repository");
        let (is_success, text) = gimbal(&["config", "show", path]);
        assert!(is_success && Config::parse(&text) == Ok(config), "{path}:\n{text}");
        let (is_success, json) = gimbal(&["config", "show", path, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(is_success && json["limits"]["connections"].is_u64() && json["device"].is_array(), "{json}");
        shown += 1;
    }
    assert!(shown > 0, "no file is valid");
}

#[test]
fn the_reference_in_the_docs_is_what_the_command_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (is_success, fields) = gimbal(&["config", "fields"]);
    assert!(is_success && page.contains(&fields), "put this into docs/configuration.md:\n{fields}");
    let (is_success, json) = gimbal(&["config", "fields", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(is_success);
    for row in json["limits"].as_array().expect("rows").iter().chain(json["tenant"].as_array().expect("rows"))
    {
        let name = row["name"].as_str().expect("a name");
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}
