//! A real etcd server that asks for a user: passwords right and wrong, and tokens that end.

mod server;

use blob::Geometry;
use blob::catalog::{Order, Reply, Standing, create, execute, register};
use blob::store::Store;
use blob_meta::{Etcd, EtcdFiles};
use server::{Administrator, PASSWORD, Scratch, Server, Setup, USER, record};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use units::Nanos;

/// Longer than a test takes.
const HOUR: Nanos = Nanos::secs(3600);

/// A server with users, the file with the password, and the administrator.
struct Guarded {
    server: Server,
    folder: Scratch,
    administrator: Administrator,
}

impl Guarded {
    fn start(name: &str, arguments: &[&str]) -> Guarded {
        // Passwords are checked quickly.
        let arguments: Vec<String> =
            arguments.iter().chain(&["--bcrypt-cost=4"]).map(|&text| text.to_owned()).collect();
        let mut server = Server::start_as(name, &Setup { arguments, ..Setup::default() });
        let mut administrator = server.administrator();
        administrator.create_users();
        administrator.enable();
        let folder = Scratch::new(&format!("{name}-password"));
        server.setup.user = Some(USER.to_owned());
        server.setup.files.password = Some(folder.write("password", &format!("{PASSWORD}\n")));
        Guarded { server, folder, administrator }
    }

    fn password_file(&self) -> PathBuf {
        self.folder.path().join("password")
    }
}

fn refusal(store: &mut Etcd) -> String {
    store.get("x").expect_err("it must be refused").to_string()
}

#[test]
fn a_wrong_password_is_named_and_not_shown_and_a_corrected_file_counts_at_once() {
    let guarded = Guarded::start("user-wrong", &[]);
    let file = guarded.folder.write("password", "abracadabra");
    let mut store = guarded.server.connect();
    let error = refusal(&mut store);
    assert!(error.contains(USER) && error.contains(&file.display().to_string()), "{error}");
    assert!(error.contains(&guarded.server.address()) && error.contains("etcdctl user passwd"), "{error}");
    guarded.folder.write("password", PASSWORD);
    assert_eq!(store.get("x"), Ok(None));
    // A new password ends the token; the file's is wrong until it is the new one.
    guarded.administrator.set_password("abracadabra");
    let error = refusal(&mut store);
    assert!(!error.contains(PASSWORD) && !error.contains("abracadabra"), "{error}");
    guarded.folder.write("password", "abracadabra");
    assert_eq!(store.get("x"), Ok(None));
    let shown = format!("{store:?}");
    assert!(shown.contains(USER) && !shown.contains("abracadabra"), "{shown}");
    assert!(!shown.contains("token"), "{shown}");
    std::fs::remove_file(guarded.password_file()).expect("it is there");
    assert!(Etcd::open(&guarded.server.name(), &guarded.server.setup.files).is_err());
}

#[test]
fn a_missing_user_a_needless_user_and_missing_rights_are_told() {
    let guarded = Guarded::start("user-missing", &[]);
    let nobody = format!("etcd://{}", guarded.server.address());
    let error = refusal(&mut Etcd::open(&nobody, &EtcdFiles::default()).expect("a good name"));
    assert!(error.contains("asks for a user") && error.contains("--etcd-password-file"), "{error}");

    let mut store = guarded.server.connect();
    assert_eq!(store.get("x"), Ok(None));
    guarded.administrator.revoke_role();
    let error = refusal(&mut store);
    assert!(error.contains("needs a role") && error.contains("readwrite /gimbal/"), "{error}");

    let open = Server::start("user-needless");
    let name = format!("etcd://{USER}@{}", open.address());
    let error = refusal(&mut Etcd::open(&name, &guarded.server.setup.files).expect("a good name"));
    assert!(error.contains("etcdctl auth enable"), "{error}");
}

#[test]
fn a_lock_lives_on_through_the_end_of_its_token() {
    // The line about a token that ended is logged at the level of information.
    let guarded = Guarded::start("user-expiry", &["--auth-token-ttl=1", "--logger=zap"]);
    let mut store = guarded.server.connect();
    let lease = store.grant(HOUR).expect("it answers");
    // On two targets.
    for number in [0, 4] {
        register(&mut store, &record(number, 8), lease, Standing::Started).expect("registered");
    }
    create(&mut store, "db", Geometry::default()).expect("created");
    let order = Order::Acquire { name: "db".to_owned(), who: "test".to_owned(), ttl: HOUR };
    let Ok(Reply::Acquired(acquired)) = execute(&mut store, &order) else { panic!("not locked") };
    let ended = format!(r#""msg":"deleted a simple token","user-name":"{USER}""#);
    for count in 1..=2 {
        guarded.server.await_log(&ended, count);
        assert_eq!(execute(&mut store, &Order::Renew(acquired.lock.clone())), Ok(Reply::Done));
        let lock = store.get("lock/db").expect("it answers").expect("it is locked");
        assert_eq!(lock.revision, acquired.lock.revision, "it was locked again");
    }
}

#[test]
fn a_server_that_has_forgotten_all_tokens_gives_new_ones() {
    let mut guarded = Guarded::start("user-restart", &[]);
    let mut store = guarded.server.connect();
    let lease = store.grant(HOUR).expect("it answers");
    guarded.administrator.enable_again();
    assert_eq!(store.get("x"), Ok(None));
    guarded.server.kill();
    guarded.server.start_again();
    assert_eq!((store.renew(lease), store.revoke(lease)), (Ok(()), Ok(())));
}

/// Answers every login with a token and refuses it in every other request. Reports the paths that were asked for.
fn ungrateful() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = listener.local_addr().expect("bound").to_string();
    let (asked, paths) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.expect("a connection"), &asked);
        }
    });
    (address, paths)
}

fn answer(mut stream: TcpStream, asked: &Sender<String>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.to_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:")).expect("a length");
    let mut body = vec![0; length.trim().parse().expect("a number")];
    reader.read_exact(&mut body).expect("the body");
    let path = lines[0].split(' ').nth(1).expect("a path").to_owned();
    // Reported before it is answered, so that every request of a call that has ended is reported.
    asked.send(path.clone()).expect("the test waits for the answer");
    let (status, body) = match path.as_str() {
        "/v3/auth/authenticate" => ("200 OK", r#"{"token":"worthless"}"#),
        _ => ("401 Unauthorized", r#"{"code":16,"message":"etcdserver: invalid auth token"}"#),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("written");
}

#[test]
fn a_token_that_is_never_accepted_ends_the_call() {
    let (address, paths) = ungrateful();
    let folder = Scratch::new("user-ungrateful");
    let password = Some(folder.write("password", PASSWORD));
    let files = EtcdFiles { password, ..EtcdFiles::default() };
    let mut store = Etcd::open(&format!("etcd://{USER}@{address}"), &files).expect("a good name");
    assert!(refusal(&mut store).contains("invalid auth token"));
    let error = refusal(&mut store);
    assert!(error.contains("invalid auth token") && !error.contains("worthless"), "{error}");
    let (login, range) = ("/v3/auth/authenticate", "/v3/kv/range");
    let asked: Vec<String> = paths.try_iter().collect();
    assert_eq!(asked, [login, range, range, login, range]);
    assert!(!format!("{store:?}").contains("worthless"));
}
