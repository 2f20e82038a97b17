//! The log on stderr: quiet unless something is wrong, one line a problem.

use std::str::FromStr as _;

use tracing::level_filters::LevelFilter;

/// The variable that sets how much is logged: `off`, `error`, `warn` (the default), `info`,
/// `debug` or `trace`.
pub const LEVEL_VARIABLE: &str = "HARNESS_LOG";

/// Starts logging to stderr. Does nothing when the process logs already.
pub fn start(level: Option<&str>) {
    let level = level.map_or(Ok(LevelFilter::WARN), LevelFilter::from_str);
    let unknown = level.is_err();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_ok() && unknown {
        tracing::warn!("{LEVEL_VARIABLE} is none of off, error, warn, info, debug, trace");
    }
}
