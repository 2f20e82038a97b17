//! Token counts.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens counted by the model for one request, or a sum of such counts.
///
/// `cached` is part of `prompt`; `thoughts` is counted beside `candidates`. All are tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that came from a cache.
    pub cached_tokens: u64,
    /// Tokens of the answer, thoughts not included.
    pub candidates_tokens: u64,
    /// Tokens of the model's thoughts.
    pub thoughts_tokens: u64,
    /// What the model says is the total.
    pub total_tokens: u64,
    /// The service tier that answered, as the provider names it; the last one known in a sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Prompt tokens by modality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt_details: Vec<ModalityCount>,
    /// Cached tokens by modality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_details: Vec<ModalityCount>,
    /// Answer tokens by modality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates_details: Vec<ModalityCount>,
}

/// Tokens of one modality.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModalityCount {
    /// The modality as the provider names it, for example `TEXT` or `IMAGE`.
    pub modality: String,
    /// Tokens.
    pub tokens: u64,
}

impl AddAssign<&Self> for Usage {
    fn add_assign(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.prompt_tokens, other.prompt_tokens);
        sum(&mut self.cached_tokens, other.cached_tokens);
        sum(&mut self.candidates_tokens, other.candidates_tokens);
        sum(&mut self.thoughts_tokens, other.thoughts_tokens);
        sum(&mut self.total_tokens, other.total_tokens);
        if other.service_tier.is_some() {
            self.service_tier.clone_from(&other.service_tier);
        }
        merge(&mut self.prompt_details, &other.prompt_details);
        merge(&mut self.cache_details, &other.cache_details);
        merge(&mut self.candidates_details, &other.candidates_details);
    }
}

fn merge(into: &mut Vec<ModalityCount>, from: &[ModalityCount]) {
    for count in from {
        match into.iter_mut().find(|c| c.modality == count.modality) {
            Some(known) => known.tokens = known.tokens.saturating_add(count.tokens),
            None => into.push(count.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_counts_and_modalities() {
        let text = |tokens| ModalityCount {
            modality: "TEXT".into(),
            tokens,
        };
        let one = Usage {
            prompt_tokens: 10,
            total_tokens: 12,
            prompt_details: vec![text(10)],
            service_tier: Some("standard".into()),
            ..Usage::default()
        };
        let mut sum = one.clone();
        sum += &Usage {
            prompt_tokens: u64::MAX,
            service_tier: None,
            ..one
        };
        assert_eq!(
            sum,
            Usage {
                prompt_tokens: u64::MAX,
                total_tokens: 24,
                prompt_details: vec![text(20)],
                service_tier: Some("standard".into()),
                ..Usage::default()
            }
        );
    }
}
