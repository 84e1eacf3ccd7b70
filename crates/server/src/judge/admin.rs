//! The files of the admin API at an address: tokens, certificate and key.
//!
//! The target takes its tokens from here, so what is checked is what is used.

use crate::config::{AdminConfig, Config, Problem};
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The shortest token, in bytes.
const TOKEN_MIN: usize = 32;

/// The tokens of the admin API.
#[derive(Default)]
pub struct AdminTokens {
    read: Option<Zeroizing<String>>,
    admin: Option<Zeroizing<String>>,
}

impl AdminTokens {
    /// These tokens.
    pub fn new(read: Option<&str>, admin: Option<&str>) -> AdminTokens {
        let own = |token: Option<&str>| token.map(|token| Zeroizing::new(token.to_owned()));
        AdminTokens { read: own(read), admin: own(admin) }
    }

    /// The token of those who may look.
    pub fn read(&self) -> Option<&str> {
        self.read.as_deref().map(String::as_str)
    }

    /// The token of those who may do everything.
    pub fn admin(&self) -> Option<&str> {
        self.admin.as_deref().map(String::as_str)
    }

    /// Reads the files of a configuration.
    ///
    /// # Errors
    /// Every problem of them.
    pub fn load(config: &AdminConfig) -> Result<AdminTokens, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut read = |field: &str, file: Option<&PathBuf>| {
            file.and_then(|file| token(field, file).map_err(|problem| problems.push(problem)).ok())
        };
        let tokens = AdminTokens {
            read: read("admin.read_token", config.read_token.as_ref()),
            admin: read("admin.admin_token", config.admin_token.as_ref()),
        };
        if tokens.read.is_some() && tokens.read == tokens.admin {
            let what = "is the same token as admin.admin_token";
            problems.push(Problem::new("admin.read_token", what, "make one for each role"));
        }
        if problems.is_empty() { Ok(tokens) } else { Err(problems) }
    }
}

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminTokens")
    }
}

/// Every problem with the files that the admin API names.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = AdminTokens::load(&config.admin).err().unwrap_or_default();
    if let Some(file) = &config.admin.certificate
        && let Err(error) = files::read_text(file)
    {
        problems.push(unreadable("admin.certificate", file, &error));
    }
    if let Some(file) = &config.admin.key
        && let Err(problem) = secret("admin.key", file)
    {
        problems.push(problem);
    }
    problems
}

fn token(field: &str, file: &Path) -> Result<Zeroizing<String>, Problem> {
    let text = secret(field, file)?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("{} has no token of at least {TOKEN_MIN} letters and digits", file.display());
        return Err(Problem::new(field, what, "make one with: openssl rand -hex 32"));
    }
    Ok(Zeroizing::new(token.to_owned()))
}

fn secret(field: &str, file: &Path) -> Result<Zeroizing<String>, Problem> {
    let open = files::open_to_others(file).map_err(|error| unreadable(field, file, &error))?;
    if let Some(advice) = open {
        return Err(Problem::new(field, format!("{}: {advice}", file.display()), ""));
    }
    files::read_secret(file).map_err(|error| unreadable(field, file, &error))
}

fn unreadable(field: &str, file: &Path, error: &std::io::Error) -> Problem {
    let what = format!("{} cannot be read: {error}", file.display());
    Problem::new(field, what, "name a file that the user who runs the target can read")
}
