//! Text that must not be shown.

use std::fmt;
use std::sync::Arc;

/// A credential. `Debug` and `Display` show a placeholder, and there is no `Serialize`: the only
/// way out is [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The credential itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the credential is the empty string, which stands for "none given" on the wire.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces every occurrence of the credential in `text` by a placeholder.
    ///
    /// Credentials shorter than 8 bytes are left alone: masking them would garble ordinary text.
    pub fn mask(&self, text: &str) -> String {
        if self.0.len() < 8 {
            text.to_owned()
        } else {
            text.replace(self.expose(), "[secret]")
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_shown_and_masked_by_value() {
        let secret = Secret::new("AIza-12345678");
        assert_eq!(format!("{secret:?} {secret}"), "Secret(..) [secret]");
        assert_eq!(secret.mask("key=AIza-12345678&x"), "key=[secret]&x");
        assert_eq!(Secret::new("a").mask("banana"), "banana");
    }
}
