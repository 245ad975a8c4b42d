//! A model's tokens as a trie, with what is precomputed for frequent regular expressions.
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

pub struct Vocabulary {
    pub factory: Arc<ParserFactory>,
    pub stops: Arc<[u32]>,
}

/// The byte by which llguidance marks special tokens: no UTF-8 has it.
const SPECIAL: u8 = 0xff;

impl Vocabulary {
    pub fn new(bytes: &[u8], ends: &[u32], stops: &[u32]) -> Result<Self, String> {
        let mut start = 0;
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(ends.len() + 1);
        for &end in ends {
            let word = bytes.get(start..end as usize).ok_or("tokens must lie one after another")?;
            // A token that has the mark, by itself no text, would be taken for a special one.
            words.push(if word.contains(&SPECIAL) { Vec::new() } else { word.to_vec() });
            start = end as usize;
        }
        for &stop in stops {
            // Models may have end tokens that their vocabulary has no text for.
            if let Some(word) = words.get_mut(stop as usize) {
                word.clear();
            }
        }
        // llguidance wants an end token. Ours is one that no output has: ends are our business.
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
