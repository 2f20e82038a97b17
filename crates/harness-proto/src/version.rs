//! Versions of the SDK.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::gates;

/// A version of the Python SDK, as its `client_info.version` names it.
///
/// Only the three numbers count: `0.1.22`, `0.1.22rc1` and `0.1.22+local` are the same.
///
/// ```
/// use harness_proto::SdkVersion;
///
/// let version: SdkVersion = "0.1.9".parse()?;
/// assert_eq!(version, SdkVersion::new(0, 1, 9));
/// assert!(SdkVersion::OLDEST < version && version < SdkVersion::NEWEST);
/// # Ok::<(), harness_proto::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SdkVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl SdkVersion {
    /// The first published version.
    pub const OLDEST: Self = Self::new(0, 1, 0);

    /// The last version that the tables of this crate were measured from.
    pub const NEWEST: Self = Self::new(0, 1, gates::NEWEST_PATCH);

    /// Makes a version of its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Returns the N of the measured 0.1.N that this version is treated as.
    pub(crate) fn measured_patch(self) -> u16 {
        self.clamp(Self::OLDEST, Self::NEWEST).patch
    }
}

impl fmt::Display for SdkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for SdkVersion {
    type Err = Error;

    /// # Errors
    ///
    /// [`Error::Version`] if the text does not start with three numbers of at most 65535.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.trim().splitn(3, '.');
        let mut number = |last: bool| {
            let part = parts.next()?;
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            (last || digits == part.len()).then(|| part.get(..digits)?.parse().ok())?
        };
        match (number(false), number(false), number(true)) {
            (Some(major), Some(minor), Some(patch)) => Ok(Self::new(major, minor, patch)),
            _ => Err(Error::Version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_up_to_their_suffix() {
        for (text, version) in [
            ("0.1.0", SdkVersion::new(0, 1, 0)),
            (" 0.1.22\n", SdkVersion::new(0, 1, 22)),
            ("0.1.22rc1", SdkVersion::new(0, 1, 22)),
            ("0.1.22.dev3+x", SdkVersion::new(0, 1, 22)),
            ("0.0.0-dev", SdkVersion::new(0, 0, 0)),
            ("1.20.300", SdkVersion::new(1, 20, 300)),
        ] {
            assert_eq!(text.parse::<SdkVersion>().unwrap(), version, "{text:?}");
        }
        for text in [
            "",
            "0",
            "0.1",
            "0.1.",
            "0.1.x",
            "a.b.c",
            "0.1a.2",
            "0.1.65536",
            "-1.0.0",
        ] {
            assert_eq!(text.parse::<SdkVersion>(), Err(Error::Version), "{text:?}");
        }
    }

    #[test]
    fn versions_outside_the_table_are_its_ends() {
        assert_eq!(SdkVersion::new(0, 0, 9).measured_patch(), 0);
        assert_eq!(SdkVersion::new(0, 1, 7).measured_patch(), 7);
        assert_eq!(
            SdkVersion::new(0, 2, 0).measured_patch(),
            gates::NEWEST_PATCH
        );
    }
}
