//! Tracks one output through a grammar.
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use llguidance::api::StopReason;

use crate::memory;
use crate::spelling::spell;
use crate::vocabulary::SPECIAL;

/// Why a matcher failed.
pub enum Failure {
    Error(String),
    /// The grammar exceeds a limit.
    Limit(String),
}

/// One byte each: of words, numbers, spaces, and what stands between values.
const USUAL: &[u8] = b"ae12 \"\n,}";

pub struct Matcher {
    inner: ManuallyDrop<llguidance::Matcher>,
    stops: Arc<[u32]>,
    /// A stop token was accepted.
    ended: bool,
    /// Bytes of the grammar with all its matchers.
    held: Arc<AtomicI64>,
    limit: i64,
}

impl Matcher {
    pub fn new(
        inner: llguidance::Matcher,
        stops: Arc<[u32]>,
        held: Arc<AtomicI64>,
        limit: i64,
    ) -> Self {
        Matcher { inner: ManuallyDrop::new(inner), stops, ended: false, held, limit }
    }

    /// Writes the mask. Returns the work that it took: parser items plus lexer steps.
    pub fn mask(&mut self, mask: &mut [u32]) -> Result<i64, Failure> {
        mask.fill(0);
        // If nothing can follow, the output is complete, whether its stop token was accepted or
        // not. Then the mask holds only stop tokens.
        let open = !self.ended && self.inner.stop_reason() == StopReason::NotStopped;
        let complete = if open { self.open_mask(mask)? } else { self.complete()? };
        let stats = self.inner.last_step_stats().map_err(error_of)?;
        let work = if open { stats.all_items as i64 + stats.lexer_cost as i64 } else { 0 };
        if complete {
            for &stop in self.stops.iter() {
                if let Some(word) = mask.get_mut(stop as usize / 32) {
                    *word |= 1 << (stop % 32);
                }
            }
        }
        Ok(work)
    }

    /// Writes the tokens that continue the output. Returns whether the output may also end here.
    fn open_mask(&mut self, mask: &mut [u32]) -> Result<bool, Failure> {
        let complete = self.metered(|inner| inner.is_accepting())?;
        // Freed in there: what is allocated and freed later would count for ever.
        self.metered(|inner| {
            inner.compute_mask().map(|allowed| {
                let words = allowed.as_slice();
                let count = words.len().min(mask.len());
                mask[..count].copy_from_slice(&words[..count]);
            })
        })?;
        self.hide_marker(mask);
        Ok(complete)
    }

    /// Clears llguidance's own end token, which the model does not have.
    fn hide_marker(&self, mask: &mut [u32]) {
        if let Ok(env) = self.inner.tok_env() {
            let marker = env.tok_trie().eos_token() as usize;
            if let Some(word) = mask.get_mut(marker / 32) {
                *word &= !(1 << (marker % 32));
            }
        }
    }

    fn complete(&mut self) -> Result<bool, Failure> {
        if self.ended || self.inner.stop_reason() == StopReason::NoExtension {
            return Ok(true);
        }
        self.metered(|inner| inner.is_accepting())
    }

    pub fn accept(&mut self, token: u32) -> Result<bool, Failure> {
        if self.ended {
            return Ok(false);
        }
        if self.stops.contains(&token) {
            self.ended = self.complete()?;
            return Ok(self.ended);
        }
        if self.inner.stop_reason() != StopReason::NotStopped {
            return self.failure_or(false);
        }
        let vocabulary = self.inner.tok_env().map_err(error_of)?.tok_trie().vocab_size();
        // The last token is llguidance's end token.
        if token as usize + 1 >= vocabulary {
            return Ok(false);
        }
        self.metered(|inner| inner.try_consume_tokens(&[token])).map(|count| count == 1)
    }

    pub fn rollback(&mut self, count: usize) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let taken = if self.ended { count - 1 } else { count };
        self.ended = false;
        self.metered(|inner| inner.rollback(taken))
    }

    /// Writes tokens that spell the text which alone may come next. Returns their number. The
    /// matcher stays as it is: a copy of it looks ahead, since the parser would keep an error that
    /// it meets there.
    pub fn forced(&mut self, tokens: &mut [u32]) -> Result<i64, Failure> {
        if self.ended || self.inner.stop_reason() != StopReason::NotStopped {
            return Ok(0);
        }
        if self.chooses()? {
            return Ok(0);
        }
        self.metered(|inner| {
            let text = inner.clone().compute_ff_bytes();
            let plain = text.split(|&byte| byte == SPECIAL).next().unwrap_or(&[]);
            let env = inner.tok_env().map_err(|error| error.to_string())?;
            let found = spell(env.tok_trie(), plain);
            let count = found.len().min(tokens.len());
            tokens[..count].copy_from_slice(&found[..count]);
            Ok::<_, String>(count as i64)
        })
    }

    /// Whether two of some usual characters may come next: then nothing is forced. The copy that
    /// finds out otherwise takes 50 µs after 2,000 tokens, this a few.
    fn chooses(&mut self) -> Result<bool, Failure> {
        let env = self.inner.tok_env().map_err(error_of)?;
        let mut allowed = 0;
        for character in USUAL {
            let Some(token) = env.tok_trie().token_id_at_bytes(&[*character]) else { continue };
            allowed += self.metered(|inner| inner.validate_tokens(&[token]))?;
            if allowed > 1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn failure_or<T>(&self, value: T) -> Result<T, Failure> {
        match self.inner.get_error() {
            Some(error) => Err(self.failure(error)),
            None => Ok(value),
        }
    }

    /// Runs `work` and counts the bytes that it allocates and does not free: its result is small.
    fn metered<T, E: std::fmt::Display>(
        &mut self,
        work: impl FnOnce(&mut llguidance::Matcher) -> Result<T, E>,
    ) -> Result<T, Failure> {
        let before = memory::held();
        let done = work(&mut self.inner);
        let grown = memory::held() - before;
        let held = self.held.fetch_add(grown, Ordering::Relaxed) + grown;
        match done {
            Err(error) => Err(self.failure(error.to_string())),
            Ok(_) if held > self.limit => Err(Failure::Limit("bytes".to_string())),
            Ok(value) => Ok(value),
        }
    }

    fn failure(&self, message: String) -> Failure {
        let message = message.replace("<non-verbose/>", "").trim().to_string();
        let limits = ["too many", "too complex", "TooComplex", "fuel", "limit"];
        if limits.iter().any(|word| message.contains(word)) {
            Failure::Limit(message)
        } else {
            Failure::Error(message)
        }
    }
}

fn error_of(error: impl std::fmt::Display) -> Failure {
    Failure::Error(error.to_string())
}

impl Drop for Matcher {
    fn drop(&mut self) {
        // What remains is memory of the grammar's lexer, which its matchers share.
        let before = memory::held();
        // Safe: `inner` is not used after this, because `self` is being dropped.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        self.held.fetch_add(memory::held() - before, Ordering::Relaxed);
    }
}
