//! A real browser shows the dashboard of a running target: what hosts do, why they wait, slow IOs, changes; and names are text.
//!
//! The browser is driven by the WebDriver protocol, and reaches the admin socket as a user does by `ssh -L PORT:SOCKET`.

mod http;
mod process;
#[path = "linux/scratch.rs"]
mod scratch;

use process::{Process, gimbal};
use scratch::Scratch;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The host that has a limit, and the one with a hostile name.
const LIMITED: &str = "nqn.2025-01.io.example:limited";
const HOSTILE: &str = "nqn.2025-01.io.example:<script>document.title='owned'</script>";

/// A browser without a screen; it ends with the test.
struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// For the browser's temporary files: it leaves some when it ends.
    _files: Scratch,
}

impl Browser {
    fn start(width: u32, dark: bool) -> Browser {
        let files = Scratch::for_sockets(&format!("browser-{width}"));
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", files.file(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is there: tests/install-deps.sh installs it with chromium-driver");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = loop {
            let line = lines.next().expect("it says its port").expect("text");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        thread::spawn(move || lines.for_each(drop));
        let mut browser =
            Browser { driver, address: format!("127.0.0.1:{port}"), session: String::new(), _files: files };
        let mut words =
            vec!["--headless=new".to_owned(), "--no-sandbox".to_owned(), "--disable-gpu".to_owned()];
        words.push(format!("--window-size={width},1600"));
        if dark {
            words.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let options = json!({ "args": words });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = browser.call("/session", &wanted);
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    fn call(&self, path: &str, body: &Value) -> Value {
        let answer = ask(&self.address, "POST", path, &body.to_string()).expect("the driver answers");
        let value: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(answer.status, 200, "{path}: {value}");
        value["value"].clone()
    }

    fn open(&self, url: &str) {
        self.call(&format!("/session/{}/url", self.session), &json!({ "url": url }));
    }

    /// The value of a script once it is true of the page, asked again after each change of the page.
    fn wait_for(&self, condition: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; const look = () => {{ const found = ({condition}); if (found) {{ watcher.disconnect(); done(found); }} }};
             const watcher = new MutationObserver(look); watcher.observe(document, {{ childList: true, subtree: true, characterData: true, attributes: true }}); look();"
        );
        self.call(&format!("/session/{}/timeouts", self.session), &json!({ "script": 120_000 }));
        self.call(
            &format!("/session/{}/execute/async", self.session),
            &json!({ "script": script, "args": [] }),
        )
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser is a child of the driver, which ends it with its session.
        if !self.session.is_empty() {
            let _ = ask(&self.address, "DELETE", &format!("/session/{}", self.session), "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Asks the driver, which leaves connections open: an answer ends where its length says.
fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<http::Answer> {
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all((head + body).as_bytes())?;
    let (mut text, mut length) = (String::new(), 0);
    while !text.ends_with("\r\n\r\n") {
        let before = text.len();
        if stream.read_line(&mut text)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = text[before..].to_ascii_lowercase();
        length =
            line.strip_prefix("content-length:").map_or(length, |of| of.trim().parse().expect("a length"));
    }
    stream.take(length).read_to_string(&mut text)?;
    Ok(http::answer(&text))
}

/// An address of TCP that leads to a Unix socket.
fn forward(socket: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let socket = socket.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(near), Ok(far)) = (stream, UnixStream::connect(&socket)) else { return };
            let (near_again, far_again) =
                (near.try_clone().expect("a handle"), far.try_clone().expect("a handle"));
            thread::spawn(move || {
                let _ = io::copy(&mut &near, &mut &far);
                let _ = far.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = io::copy(&mut &far_again, &mut &near_again);
                let _ = near_again.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// A target with an emulated SSD on which one host has a limit.
fn target(folder: &Path) -> Process {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("cargo's folder for tests is writable");
    let config = folder.join("gimbal.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nsocket = {:?}\n\
         [[device]]\nname = \"ssd\"\nkind = \"emulated\"\nsize = \"256M\"\n\
         [[subsystem]]\nnqn = \"nqn.2025-01.io.example:disk\"\nallow_any_host = true\n[[subsystem.namespace]]\ndevice = \"ssd\"\n\
         [[tenant]]\nhost = \"{LIMITED}\"\nlimit_iops = 200\n",
        folder.join("s")
    );
    fs::write(&config, text).expect("writable");
    let mut command = gimbal();
    command.args(["serve", "-c"]).arg(&config).arg("--state-dir").arg(folder);
    Process::start(&mut command)
}

/// A host that reads until the test ends.
struct Reader(Child);

impl Reader {
    fn start(target: &Process, host: &str) -> Reader {
        let address = target.address().to_string();
        let mut command = gimbal();
        command.args(["bench", "--addr", &address, "--hostnqn", host, "--rw", "randread", "--bs", "4k"]);
        command.args(["--iodepth", "8", "--time_based", "--runtime", "600s", "--json", "-"]);
        Reader(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was built"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dashboard-{name}"))
}

#[test]
fn the_page_shows_who_waits_and_why_slow_ios_changes_and_names_as_text() {
    let folder = folder("page");
    let target = target(&folder);
    let _readers = [LIMITED, HOSTILE].map(|host| Reader::start(&target, host));
    let set = gimbal()
        .args(["ctl", "--socket"])
        .arg(folder.join("s"))
        .args(["set", "limits", "connections=77"])
        .output()
        .expect("it was built");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let browser = Browser::start(1300, false);
    browser.open(&format!("http://{}/", forward(&folder.join("s"))));
    let rows = |table: &str, host: &str| {
        format!(
            "[...document.querySelectorAll('#{table} tbody tr')].filter((row) => row.cells[0].title === {:?})",
            format!("host {host}")
        )
    };
    // Both hosts read in one of its seconds, and the limited one waits for its limit for most of it.
    browser.wait_for(&format!(
        "{}.some((row) => parseFloat(row.cells[2].textContent) > 0)",
        rows("tenants", HOSTILE)
    ));
    browser.wait_for(&format!(
        "{}.some((row) => parseFloat(row.cells[2].textContent) > 50)",
        rows("waits", LIMITED)
    ));
    browser.wait_for(&format!(
        "{}.some((row) => parseFloat(row.cells[6].textContent) > 1)",
        rows("slow", LIMITED)
    ));
    let changes = browser.wait_for("document.querySelector('#changes tbody tr')?.textContent");
    let changes = changes.as_str().expect("text");
    assert!(changes.contains("uid=") && changes.contains("limits connections: 1024 → 77"), "{changes}");
    let seen = browser.wait_for(
        "({ title: document.title, scripts: document.scripts.length, overflow: document.documentElement.scrollWidth - window.innerWidth,
            ink: [...document.getElementById('bandwidth').getContext('2d').getImageData(60, 0, 4000, 300).data].some((byte) => byte > 0) })",
    );
    assert_eq!(
        (&seen["title"], &seen["scripts"]),
        (&json!("gimbal"), &json!(1)),
        "the name of a host is text"
    );
    assert_eq!(seen["ink"], true, "the chart is drawn");
    assert!(seen["overflow"].as_i64().expect("a width") <= 0, "{seen}");
}

#[test]
fn on_a_phone_in_the_dark_nothing_is_wider_than_the_screen() {
    let folder = folder("phone");
    let target = target(&folder);
    let _reader = Reader::start(&target, HOSTILE);
    let browser = Browser::start(500, true);
    browser.open(&format!("http://{}/", forward(&folder.join("s"))));
    browser.wait_for("document.querySelector('#tenants tbody tr')");
    let seen = browser.wait_for(
        "({ wider: document.documentElement.scrollWidth - window.innerWidth, ground: getComputedStyle(document.body).backgroundColor })",
    );
    assert!(seen["wider"].as_i64().expect("a width") <= 0, "{seen}");
    assert_eq!(seen["ground"], "rgb(16, 20, 24)", "the dark colours");
}
