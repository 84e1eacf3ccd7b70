//! A real etcd server with TLS: whom the client trusts, and the words for each way in which that fails.

mod server;

use blob::store::Store;
use blob::store::conformance::run;
use blob_meta::{Etcd, EtcdFiles};
use server::{Authority, PASSWORD, Server, Setup, USER};
use std::path::PathBuf;

fn trust(ca: PathBuf) -> EtcdFiles {
    EtcdFiles { ca: Some(ca), ..EtcdFiles::default() }
}

fn with_tls(authority: &Authority) -> Setup {
    let (certificate, files) = (Some(authority.issue("IP:127.0.0.1")), trust(authority.file()));
    Setup { certificate, files, ..Setup::default() }
}

/// The reason why a store cannot be used.
fn refusal(name: &str, files: &EtcdFiles) -> String {
    let mut store = Etcd::open(name, files).expect("a good name");
    store.get("x").expect_err("it must be refused").to_string()
}

#[test]
fn etcd_with_tls_and_a_user_conforms() {
    let authority = Authority::new("tls-user-ca");
    let mut setup = with_tls(&authority);
    setup.arguments = vec!["--bcrypt-cost=4".to_owned()];
    let mut server = Server::start_as("tls-user", &setup);
    let mut administrator = server.administrator();
    administrator.create_users();
    administrator.enable();
    let folder = server::Scratch::new("tls-user-password");
    server.setup.user = Some(USER.to_owned());
    server.setup.files.password = Some(folder.write("password", PASSWORD));
    run(&mut server);
}

#[test]
fn a_server_that_the_client_does_not_trust_is_refused_in_words() {
    let (authority, other) = (Authority::new("tls-trust-ca"), Authority::new("tls-trust-other-ca"));
    let server = Server::start_as("tls-trust", &with_tls(&authority));
    let name = server.name();
    let error = refusal(&name, &trust(other.file()));
    assert!(error.contains(&other.file().display().to_string()), "{error}");
    assert!(error.contains("have not signed") && error.contains("--etcd-ca-file"), "{error}");
    assert!(error.contains(&server.address()), "{error}");
    // This system has not heard of the CA either; one without any CA is refused earlier.
    let error = match Etcd::open(&name, &EtcdFiles::default()) {
        Ok(mut store) => store.get("x").expect_err("it must be refused").to_string(),
        Err(error) => error,
    };
    assert!(error.contains("this system") && error.contains("--etcd-ca-file"), "{error}");
}

#[test]
fn a_certificate_for_another_name_is_refused_in_words() {
    let authority = Authority::new("tls-name-ca");
    let named = Setup { certificate: Some(authority.issue("IP:127.0.0.1")), ..with_tls(&authority) };
    let server = Server::start_as("tls-name", &named);
    // The same server, by a name that its certificate does not contain.
    let name = server.name().replace("127.0.0.1", "localhost");
    let error = refusal(&name, &server.setup.files);
    assert!(error.contains("another name") && error.contains("localhost"), "{error}");
    assert!(error.contains("subjectAltName"), "{error}");
}

#[test]
fn plain_text_to_tls_and_tls_to_plain_text_are_told() {
    let authority = Authority::new("tls-plain-ca");
    let server = Server::start_as("tls-plain", &with_tls(&authority));
    let error = refusal(&server.name().replace("etcds:", "etcd:"), &EtcdFiles::default());
    assert!(error.contains("expects TLS") && error.contains("write etcds://"), "{error}");

    let plain = Server::start("tls-none");
    let error = refusal(&plain.name().replace("etcd:", "etcds:"), &trust(authority.file()));
    assert!(error.contains("does not speak TLS") && error.contains("write etcd://"), "{error}");
}

#[test]
fn a_server_that_asks_for_a_certificate_of_the_client_gets_it() {
    let (authority, other) = (Authority::new("tls-client-ca"), Authority::new("tls-client-other-ca"));
    let client = authority.issue("DNS:client");
    let mut setup = with_tls(&authority);
    setup.arguments = vec!["--client-cert-auth".to_owned()];
    setup.arguments.push(format!("--trusted-ca-file={}", authority.file().display()));
    setup.files.cert = Some(client.cert.clone());
    setup.files.key = Some(client.key.clone());
    let server = Server::start_as("tls-client", &setup);
    assert_eq!(server.connect().get("x"), Ok(None));

    let error = refusal(&server.name(), &trust(authority.file()));
    assert!(error.contains("--etcd-cert-file"), "{error}");
    let stranger = other.issue("DNS:client");
    let (cert, key) = (Some(stranger.cert), Some(stranger.key));
    let error = refusal(&server.name(), &EtcdFiles { cert: cert.clone(), key, ..trust(authority.file()) });
    assert!(error.contains("--trusted-ca-file"), "{error}");
    // The key of another certificate.
    let files = EtcdFiles { cert, key: Some(client.key), ..trust(authority.file()) };
    let error = Etcd::open(&server.name(), &files).expect_err("the key is another one's");
    assert!(error.contains("is not the key of"), "{error}");
}

#[test]
fn files_that_are_no_certificates_are_refused_before_they_are_used() {
    let folder = server::Scratch::new("tls-files");
    let authority = Authority::new("tls-files-ca");
    let open = |files: &EtcdFiles| Etcd::open("etcds://127.0.0.1:1", files).expect_err("refused");
    let text = folder.write("text", "no certificate");
    assert!(open(&trust(text.clone())).contains("there is no certificate in it"));
    assert!(open(&trust(folder.path().join("none"))).contains("cannot be read"));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(open(&trust(folder.write("empty", empty))).contains("cannot be a CA's"));
    let cert = Some(authority.issue("DNS:client").cert);
    let error = open(&EtcdFiles { cert, key: Some(text), ..trust(authority.file()) });
    assert!(error.contains("there is no private key in it"), "{error}");
}
