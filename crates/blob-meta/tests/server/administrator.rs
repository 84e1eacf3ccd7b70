//! Sets up the users of an etcd server: root, and a user who may use the keys of gimbal only.

use rustls::crypto::aws_lc_rs;
use serde_json::{Value, json};
use std::sync::Arc;
use ureq::Agent;
use ureq::tls::TlsConfig;

/// The user who may use the keys of gimbal, and the password.
pub(crate) const USER: &str = "volumes";
pub(crate) const PASSWORD: &str = "open sesame";
/// Of root.
const ROOT: &str = "the mountain's";

pub(crate) struct Administrator {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Administrator {
    /// For the server at a URL. Not all of them have certificates that fit, so none is checked.
    pub(crate) fn new(url: &str) -> Administrator {
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .disable_verification(true);
        let config = Agent::config_builder().http_status_as_error(false).tls_config(tls.build());
        Administrator { agent: config.build().into(), url: url.to_owned(), token: None }
    }

    fn ask(&self, path: &str, request: &Value) -> Value {
        let post = self.agent.post(format!("{}/v3/auth/{path}", self.url));
        let post = match &self.token {
            Some(token) => post.header("Authorization", token),
            None => post,
        };
        let mut response = post.send(request.to_string()).expect("it answers");
        let body = response.body_mut().read_to_string().expect("it answers");
        assert!(response.status().is_success(), "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Creates the users and their roles.
    pub(crate) fn create_users(&mut self) {
        for (user, password, role) in [("root", ROOT, "root"), (USER, PASSWORD, "volumes")] {
            self.ask("user/add", &json!({ "name": user, "password": password }));
            self.ask("role/add", &json!({ "name": role }));
            self.ask("user/grant", &json!({ "user": user, "role": role }));
        }
        self.grant("/gimbal/", "/gimbal0");
    }

    /// Lets the user of gimbal use a range of keys.
    fn grant(&self, first: &str, end: &str) {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let [key, range_end] = [first, end].map(|text| STANDARD.encode(text));
        let permission = json!({ "permType": "READWRITE", "key": key, "range_end": range_end });
        self.ask("role/grant", &json!({ "name": "volumes", "perm": permission }));
    }

    /// From now on, everyone needs a user.
    pub(crate) fn enable(&mut self) {
        self.ask("enable", &json!({}));
        let answer = self.ask("authenticate", &json!({ "name": "root", "password": ROOT }));
        self.token = Some(answer["token"].as_str().expect("a token").to_owned());
    }

    /// Has the server forget all tokens. A restart does not always: etcd repeats the logins of its log.
    pub(crate) fn enable_again(&mut self) {
        self.ask("disable", &json!({}));
        self.token = None;
        self.enable();
    }

    /// Sets the password of the user of gimbal.
    pub(crate) fn set_password(&self, password: &str) {
        self.ask("user/changepw", &json!({ "name": USER, "password": password }));
    }

    /// Takes all keys from the user of gimbal.
    pub(crate) fn revoke_role(&self) {
        self.ask("user/revoke", &json!({ "name": USER, "role": "volumes" }));
    }
}
