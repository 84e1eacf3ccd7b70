//! The user as whom the cluster is used, and the token that etcd gave for its password.
//!
//! The password is read when a token is needed, and forgotten: a new one in the file counts from the next login. Neither
//! password nor token is in an error or in `Debug`.

use super::files::read_password;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// A user of etcd.
pub(super) struct Login {
    pub(super) user: String,
    /// The file with its password, by its absolute path.
    pub(super) password: PathBuf,
    /// The last token; `None` before the first login.
    pub(super) token: Option<Zeroizing<String>>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &self.password)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Request<'a> {
    name: &'a str,
    password: &'a str,
}

impl Login {
    /// A login as this user. Checks that there is a password.
    ///
    /// # Errors
    /// A description of the problem of the file.
    pub(super) fn new(user: String, password: PathBuf) -> Result<Login, String> {
        read_password(&password)?;
        let path = std::path::absolute(&password);
        let password = path.map_err(|error| format!("{}: {error}", password.display()))?;
        Ok(Login { user, password, token: None })
    }

    /// The request for a token (`/v3/auth/authenticate`).
    ///
    /// # Errors
    /// A description of the problem of the file.
    pub(super) fn request(&self) -> Result<Zeroizing<String>, String> {
        let password = read_password(&self.password)?;
        let request = Request { name: &self.user, password: &password };
        Ok(Zeroizing::new(serde_json::to_string(&request).expect("two texts")))
    }
}
