//! The range of controller identifiers of a subsystem, as it stands in the file: `"1-32767"`.

use nvme::subsystem::ControllerIds;

/// The form that [`parse`] accepts.
pub(super) const EXPECTED: &str = "a range of controller identifiers such as \"1-32767\", within 1 to 65519";

/// The range, `"FIRST-LAST"`.
pub(super) fn parse(text: &str) -> Option<ControllerIds> {
    let (first, last) = text.split_once('-')?;
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    ControllerIds::new(number(first)?, number(last)?)
}

/// The range as text.
pub(super) fn text(ids: ControllerIds) -> String {
    format!("{}-{}", ids.first(), ids.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_it_is_written() {
        for right in ["1-32767", "32768-65519", "5-5"] {
            assert_eq!(parse(right).map(text).as_deref(), Some(right));
        }
        for wrong in [
            "", "-", "1", "1-", "-1", "0-5", "6-5", "1-65520", "1-99999", " 1-2", "1--2", "+1-2", "1-2-3",
            "0x1-2",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
