//! The sender of a request, and its permissions.
//!
//! Whoever may use the socket may do everything. At an address a request needs a token: that of `read` may look, that of `admin` may do everything.
//! Tokens are compared in a time that does not depend on their bytes.
//!
//! Holds: `a_token_has_a_role_and_anything_else_has_none`.

use crate::refusal::Refusal;
use axum::http::{HeaderMap, header};
use server::AdminTokens;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use subtle::ConstantTimeEq;
use tracing::warn;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A process on this machine.
    Local { uid: u32, pid: Option<i32> },
    /// Somewhere else.
    Remote(SocketAddr),
}

/// The permissions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Admin,
}

/// The tokens of an address, and how many requests came without one.
#[derive(Debug)]
pub(crate) struct Access {
    tokens: AdminTokens,
    refused: AtomicU64,
}

impl Access {
    pub(crate) fn new(tokens: AdminTokens) -> Access {
        Access { tokens, refused: AtomicU64::new(0) }
    }

    /// The role of a request.
    ///
    /// # Errors
    /// It has none (401).
    pub(crate) fn role(&self, headers: &HeaderMap, peer: Option<Peer>) -> Result<Role, Refusal> {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        let is = |token: Option<&str>| token.is_some_and(|token| token.as_bytes().ct_eq(given).into());
        // Both are compared, whichever it is.
        let (is_admin, is_read) = (is(self.tokens.admin()), is(self.tokens.read()));
        if is_admin {
            return Ok(Role::Admin);
        }
        if is_read {
            return Ok(Role::Read);
        }
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        // As often as the count doubles, so that a flood does not fill the log.
        if count.is_power_of_two() {
            warn!(?peer, count, "admin: requests without a valid token");
        }
        Err(Refusal::new(401, "there is no valid token in the request; send Authorization: Bearer TOKEN"))
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Local { uid, pid: Some(pid) } => write!(f, "uid={uid} pid={pid}"),
            Peer::Local { uid, pid: None } => write!(f, "uid={uid}"),
            Peer::Remote(address) => write!(f, "address={address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_role_and_anything_else_has_none() {
        let [read, admin] = ["r", "a"].map(|letter| letter.repeat(32));
        let access = Access::new(AdminTokens::new(Some(&read), Some(&admin)));
        let role = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            access.role(&headers, None)
        };
        assert_eq!(role(&format!("Bearer {read}")), Ok(Role::Read));
        assert_eq!(role(&format!("Bearer {admin}")), Ok(Role::Admin));
        for other in
            ["", "Bearer ", "Bearer", &admin, &format!("Bearer {admin}a"), &format!("Bearer {}", &admin[1..])]
        {
            assert_eq!(role(other).map_err(|refusal| refusal.status), Err(401), "{other:?}");
        }
        assert_eq!(access.role(&HeaderMap::new(), None).map_err(|refusal| refusal.status), Err(401));
        let without = Access::new(AdminTokens::new(None, Some(&admin)));
        assert!(
            without.role(&HeaderMap::new(), None).is_err(),
            "a token that is not there is not the empty one"
        );
    }
}
