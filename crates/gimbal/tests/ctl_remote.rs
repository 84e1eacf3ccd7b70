//! The admin API at an address: tokens, roles, TLS, and what the check of a configuration refuses.

mod process;

use process::{Process, gimbal};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEXT: &str = "listen = [\"127.0.0.1:0\"]\n[[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\
                    [[subsystem]]\nnqn = \"nqn.2025-01.io.example:disk\"\nallow_any_host = true\n\
                    [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\nsize = \"64M\"\n";

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ctl-remote-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
    folder
}

fn secret(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).expect("ours");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
    file
}

/// A target with these lines in `[admin]`, and the address of its API.
fn target(folder: &Path, admin: &str) -> (Process, process::Log, String) {
    let file = folder.join("gimbal.toml");
    fs::write(&file, format!("{TEXT}[admin]\nsocket = \"none\"\nlisten = \"127.0.0.1:0\"\n{admin}"))
        .expect("ours");
    let (target, mut log) = Process::start_with_log(gimbal().arg("serve").arg("-c").arg(&file));
    log.await_line("the admin API can be reached with a token");
    let line = log.saying("the admin API can be reached with a token")[0];
    let address = line
        .split("address=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("an address")
        .to_owned();
    (target, log, address)
}

fn ctl(url: &str, token: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = gimbal().args(["ctl", "--url", url, "--token-file"]).arg(token).args(words).output();
    let output = output.expect("it was built");
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}

#[test]
fn a_token_is_needed_and_a_reader_only_looks() {
    let folder = folder("tokens");
    let [read, admin, other] = [("read", "r"), ("admin", "a"), ("other", "o")]
        .map(|(name, letter)| secret(&folder, name, &format!("{}\n", letter.repeat(32))));
    let lines = format!("read_token = {read:?}\nadmin_token = {admin:?}\n");
    let (_target, mut log, address) = target(&folder, &lines);
    let url = format!("http://{address}");
    assert_eq!(ctl(&url, &read, &["health"]), (Some(0), "alive\nready\n".to_owned()));
    let (code, said) = ctl(&url, &read, &["set", "limits", "connections=77"]);
    assert!(code == Some(1) && said.contains("may only look"), "{said}");
    let (code, said) = ctl(&url, &admin, &["set", "limits", "connections=77"]);
    assert_eq!(code, Some(0), "{said}");
    log.await_line("what=\"PATCH /v1/limits\"");
    assert_ne!(ctl(&url, &other, &["config", "show"]).0, Some(0));

    // Whoever guesses costs a few lines of the log, and no one else's answers.
    let mut stream = BufReader::new(TcpStream::connect(&address).expect("it listens"));
    for guess in 0..10_000 {
        let request = format!(
            "PUT /v1/config HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {guess:032}\r\nContent-Length: 0\r\n\r\n"
        );
        stream.get_mut().write_all(request.as_bytes()).expect("it reads");
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let before = head.len();
            stream.read_line(&mut head).expect("it answers");
            let line = head[before..].to_ascii_lowercase();
            length = line
                .strip_prefix("content-length: ")
                .map_or(length, |text| text.trim().parse().expect("a number"));
        }
        assert!(head.starts_with("HTTP/1.1 401"), "{head}");
        stream.read_exact(&mut vec![0; length]).expect("it answers");
    }
    assert_eq!(ctl(&url, &read, &["health"]).0, Some(0));
    log.await_line("count=8192");
    assert!(log.saying("requests without a valid token").len() <= 14);
}

#[test]
fn the_api_has_tls() {
    let folder = folder("tls");
    let admin = secret(&folder, "admin", &"a".repeat(64));
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=gimbal",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("make test installs openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let lines = format!("certificate = {certificate:?}\nkey = {key:?}\nadmin_token = {admin:?}\n");
    let (_target, _log, address) = target(&folder, &lines);
    let url = format!("https://{address}");
    let certificate = certificate.to_str().expect("text");
    let (code, said) = ctl(&url, &admin, &["--ca", certificate, "get", "subsystem"]);
    assert!(code == Some(0) && said.contains("nqn.2025-01.io.example:disk"), "{said}");
    let (code, said) = ctl(&url, &admin, &["--ca", certificate, "set", "limits", "connections=78"]);
    assert_eq!(code, Some(0), "{said}");
    // Without the certificate's CA, and without TLS, nothing is told.
    assert_eq!(ctl(&url, &admin, &["health"]).0, Some(3));
    let mut stream = TcpStream::connect(&address).expect("it listens");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP/"), "{bytes:?}");
}

#[test]
fn the_check_refuses_an_api_that_others_could_use() {
    let folder = folder("check");
    let token = secret(&folder, "token", &"t".repeat(32));
    let short = secret(&folder, "short", "short");
    let open = secret(&folder, "open", &"o".repeat(32));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("ours");
    let file = folder.join("gimbal.toml");
    for (lines, expected) in [
        (
            "listen = \"127.0.0.1:0\"".to_owned(),
            "admin.listen: everyone who reaches this address could use the admin API",
        ),
        (
            format!("listen = \"0.0.0.0:4421\"\nadmin_token = {token:?}"),
            "admin.listen: tokens would cross the network as they are",
        ),
        (format!("admin_token = {token:?}"), "admin.admin_token: is not used without admin.listen"),
        (format!("listen = \"127.0.0.1:0\"\nadmin_token = {short:?}"), "has no token of at least 32"),
        (format!("listen = \"127.0.0.1:0\"\nadmin_token = {open:?}"), "others can read or change it"),
        (
            format!("listen = \"127.0.0.1:0\"\nread_token = {token:?}\nadmin_token = {token:?}"),
            "make one for each role",
        ),
        (
            format!("listen = \"127.0.0.1:0\"\nadmin_token = {token:?}\nkey = {token:?}"),
            "admin.key: has no certificate",
        ),
        (format!("listen = \"127.0.0.1:0\"\nadmin_token = {:?}", folder.join("none")), "cannot be read"),
    ] {
        fs::write(&file, format!("{TEXT}[admin]\n{lines}\n")).expect("ours");
        for words in [&["config", "check"][..], &["serve", "-c"]] {
            let output = gimbal().args(words).arg(&file).output().expect("it was built");
            let said = String::from_utf8(output.stderr).expect("text");
            assert!(
                output.status.code() == Some(1) && said.contains(expected),
                "{lines}: {expected:?} is not in\n{said}"
            );
        }
    }
}
