//! The pages of a list.
//!
//! A token is the identifier of the last entry of a page, so that a list may change between two pages: no entry that stays is left out or told twice.

use tonic::Status;

/// The entries of a page, and the token of the next one.
pub(crate) fn page<T>(
    mut all: Vec<T>,
    id: impl Fn(&T) -> String,
    most: i32,
    token: &str,
    is_id: impl Fn(&str) -> bool,
) -> Result<(Vec<T>, String), Status> {
    let most = usize::try_from(most)
        .map_err(|_| Status::invalid_argument(format!("max_entries is {most}; write 0 or more")))?;
    if !token.is_empty() && !is_id(token) {
        return Err(Status::aborted(format!("{token:?} is no token of this list; begin it anew")));
    }
    all.sort_by_key(|entry| id(entry));
    all.retain(|entry| id(entry).as_str() > token);
    let has_more = most > 0 && all.len() > most;
    if has_more {
        all.truncate(most);
    }
    let next = all.last().filter(|_| has_more).map(id).unwrap_or_default();
    Ok((all, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_every_entry_once_also_if_entries_go_meanwhile() {
        let list = |names: &str, most, token: &str| {
            let all: Vec<char> = names.chars().collect();
            page(all, char::to_string, most, token, |token| token.len() == 1)
        };
        let (first, next) = list("dbca", 2, "").expect("a page");
        assert_eq!((first, next.as_str()), (vec!['a', 'b'], "b"));
        assert_eq!(list("dca", 2, &next).expect("a page"), (vec!['c', 'd'], String::new()));
        assert_eq!(list("dca", 0, "").expect("a page").0.len(), 3);
        assert_eq!(list("a", 0, "no").expect_err("no token").code(), tonic::Code::Aborted);
        assert_eq!(list("a", -1, "").expect_err("negative").code(), tonic::Code::InvalidArgument);
    }
}
