//! Level and form of the log.
//!
//! The filter is read here, both for the check of a configuration and for the log itself, so that a filter that passes the one cannot
//! fail the other.

use tracing_subscriber::EnvFilter;

/// The filter where none is given.
const DEFAULT_LEVEL: &str = "info";

/// Level and form of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter as `tracing` has them, such as `info` or `warn,server=debug`; `None` is `info`.
    pub level: Option<String>,
    /// Form of a record.
    pub format: LogFormat,
}

/// Form of a log record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogConfig {
    /// The filter that `level` describes.
    ///
    /// # Errors
    /// It is not a filter: why, without the name of the field.
    pub fn filter(&self) -> Result<EnvFilter, String> {
        let level = self.level.as_deref().unwrap_or(DEFAULT_LEVEL);
        EnvFilter::try_new(level).map_err(|error| format!("{level:?} is not a log filter: {error}"))
    }
}
