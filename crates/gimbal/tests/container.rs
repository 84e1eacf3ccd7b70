//! The container image: packed as an OCI archive, read back by other tools, and run from its own files alone.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run make test-deps"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{error}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_archive_is_read_back_and_what_is_in_it_serves() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("container");
    let _ = fs::remove_dir_all(&folder);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/oci.sh");
    let printed = said(Command::new(script).arg(env!("CARGO_BIN_EXE_gimbal")).env("GIMBAL_DIST", &folder));
    let archive = PathBuf::from(printed.trim());
    let source = format!("oci-archive:{}", archive.display());

    let config: Value =
        serde_json::from_str(&said(Command::new("skopeo").args(["inspect", "--config", &source])))
            .expect("JSON");
    assert_eq!(config["config"]["User"], "gimbal");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/gimbal"]));
    assert_eq!(config["config"]["Cmd"], serde_json::json!(["serve", "-c", "/etc/gimbal/gimbal.toml"]));
    assert_eq!(config["os"], "linux");

    let (layout, bundle) = (folder.join("layout"), folder.join("bundle"));
    said(Command::new("skopeo").args(["copy", "--quiet", &source, &format!("oci:{}:a", layout.display())]));
    let mut unpack = Command::new("umoci");
    said(unpack.args(["unpack", "--rootless", "--image", &format!("{}:a", layout.display())]).arg(&bundle));
    let root = bundle.join("rootfs");

    // Its loader, its libraries, its user's folders: nothing of this machine is seen there.
    let within = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--kill-child", "chroot"])
            .arg(&root)
            .arg("/usr/bin/gimbal");
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs([("STATE_DIRECTORY", "/var/lib/gimbal"), ("RUNTIME_DIRECTORY", "/run/gimbal")]);
        command
    };
    assert!(said(&mut within(&["config", "check", "/etc/gimbal/gimbal.toml"])).contains("valid"));
    let mut serve = within(&["serve", "-c", "/etc/gimbal/gimbal.toml", "--listen", "127.0.0.1:0"]);
    let mut target = serve.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("unshare is there");
    let mut line = String::new();
    BufReader::new(target.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let checked = said(&mut within(&["ctl", "health"]));
    // unshare passes no signal on; its child ends with it.
    target.kill().expect("our own child");
    target.wait().expect("our own child");
    assert!(line.starts_with("listening on 127.0.0.1:"), "{line:?}");
    assert!(checked.contains("alive") || checked.contains("ready"), "{checked}");
    assert!(said(&mut within(&["state", "check"])).contains("valid"));
}
