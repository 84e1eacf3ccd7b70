//! Escapes all log lines, so that text from hosts cannot change the form of the log.
//!
//! A host chooses the bytes of its NQN and of other names that are logged. A newline in one would forge a log line; an escape sequence
//! would reach the operator's terminal. Escaping at each log statement could be forgotten. So every line of every format (text and
//! JSON) is escaped here, after formatting and before writing: characters that cannot be printed become `\n` or `\u001b`. These
//! escapes are also valid in JSON strings.
//!
//! Holds: a line stays one line and has only printable characters (`a_line_stays_one_line_whatever_its_fields_hold`;
//!        `a_name_that_would_forge_a_log_line_is_refused_and_logged_in_one_line` in `tests/bad_peers/log.rs`).

use std::fmt;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Wraps a format of log lines and escapes everything that cannot be printed. So there are no colours: they are escape sequences.
#[derive(Clone, Copy, Debug)]
pub struct EscapedLines<F>(pub F);

impl<S, N, F> FormatEvent<S, N> for EscapedLines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        escape(line.strip_suffix('\n').unwrap_or(&line), &mut writer)?;
        fmt::Write::write_char(&mut writer, '\n')
    }
}

/// Writes `text`, and escapes all characters that cannot be printed.
fn escape(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let mut plain_from = 0;
    for (at, char) in text.char_indices().filter(|(_, char)| !is_printable(*char)) {
        out.write_str(&text[plain_from..at])?;
        plain_from = at + char.len_utf8();
        match char {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            _ => char.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?,
        }
    }
    out.write_str(&text[plain_from..])
}

/// Whether a character can be printed: what `Debug` does not escape, and quotes and backslashes.
fn is_printable(char: char) -> bool {
    matches!(char, ' '..='~') || char.escape_debug().next() != Some('\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::fmt::format::{JsonFields, format};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while it holds this").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Written;

        fn make_writer(&self) -> Written {
            self.clone()
        }
    }

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("as above").clone()).expect("lines are UTF-8")
        }
    }

    /// A newline, a clear-screen sequence, a bell, a carriage return, an 8-bit control sequence, right-to-left text, a line separator, a
    /// tag character, and bytes that are not UTF-8.
    fn hostile() -> String {
        let text = "nqn.a\n2026 WARN forged\u{1b}[2J\u{7}\r\u{9b}31m\u{202e}\u{2028}\u{e0041}\u{7f}\0";
        format!("{text}{}", String::from_utf8_lossy(b"\xff\xfe"))
    }

    fn log_everything() {
        let text = hostile();
        let error = io::Error::other(text.clone());
        tracing::warn!(host = text.as_str(), shown = %text, debug = ?text, %error, "message: {text}");
    }

    fn assert_is_one_line(written: &str) {
        let (line, rest) = written.split_once('\n').expect("a line ends");
        assert_eq!(rest, "", "{written:?}");
        assert!(line.chars().all(is_printable), "{line:?}");
        assert!(line.contains(
            r"nqn.a\n2026 WARN forged\u001b[2J\u0007\r\u009b31m\u202e\u2028\udb40\udc41\u007f\u0000"
        ));
    }

    #[test]
    fn a_line_stays_one_line_whatever_its_fields_hold() {
        let written = Written::default();
        let builder = tracing_subscriber::fmt().with_writer(written.clone()).with_ansi(true);
        let subscriber = builder.event_format(EscapedLines(format())).finish();
        tracing::subscriber::with_default(subscriber, log_everything);
        assert_is_one_line(&written.text());
    }

    #[test]
    fn a_line_of_json_stays_json() {
        let written = Written::default();
        let builder = tracing_subscriber::fmt().with_writer(written.clone()).fmt_fields(JsonFields::new());
        let subscriber = builder.event_format(EscapedLines(format().json())).finish();
        tracing::subscriber::with_default(subscriber, || {
            let text = hostile();
            tracing::warn!(host = text.as_str(), "a line");
        });
        let text = written.text();
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["fields"]["host"], hostile().as_str(), "{text}");
        assert!(text.trim_end_matches('\n').chars().all(is_printable), "{text:?}");
    }
}
