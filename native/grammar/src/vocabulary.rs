//! A model's tokens as a trie, with data precomputed for common regular expressions.
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

pub struct Vocabulary {
    pub factory: Arc<ParserFactory>,
    pub stops: Arc<[u32]>,
}

/// The byte by which llguidance marks special tokens; it never occurs in UTF-8.
pub const SPECIAL: u8 = 0xff;

impl Vocabulary {
    pub fn new(bytes: &[u8], ends: &[u32], stops: &[u32]) -> Result<Self, String> {
        let mut start = 0;
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(ends.len() + 1);
        for &end in ends {
            let word = bytes.get(start..end as usize).ok_or("tokens must lie one after another")?;
            // A token that contains this byte, and so is no text by itself, would be taken for a
            // special token.
            words.push(if word.contains(&SPECIAL) { Vec::new() } else { word.to_vec() });
            start = end as usize;
        }
        for &stop in stops {
            // Models may have end tokens for which their vocabulary has no text.
            if let Some(word) = words.get_mut(stop as usize) {
                word.clear();
            }
        }
        // llguidance needs an end token. It gets one that no output contains, because stop tokens
        // are handled in matcher.rs.
        words.push(Vec::new());
        let info = TokRxInfo::new(words.len() as u32, words.len() as u32 - 1);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let capabilities = InferenceCapabilities::default();
        let mut factory =
            ParserFactory::new(&env, capabilities, &slices).map_err(|error| error.to_string())?;
        factory.quiet();
        Ok(Vocabulary { factory: Arc::new(factory), stops: stops.into() })
    }
}
