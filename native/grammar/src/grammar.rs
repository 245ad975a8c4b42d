//! Compiles grammars, on a thread whose stack is large enough for deeply nested ones.
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use llguidance::Logger;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::toktrie::InferenceCapabilities;

use crate::matcher::Matcher;
use crate::memory;
use crate::vocabulary::Vocabulary;

/// Limits of one grammar. Plain integers in the caller's memory layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limits {
    /// Bytes of a grammar with all its matchers.
    pub bytes: u64,
    /// Lexer states.
    pub lexer_states: u64,
    /// Symbols in the grammar's rules.
    pub symbols: u64,
    /// Lexer work while the grammar is compiled.
    pub compile_work: u64,
    /// Lexer work for one token.
    pub step_work: u64,
    /// Parser items for one token, and at one place of the output.
    pub step_items: u64,
    pub row_items: u64,
    /// Stack of the compiling thread.
    pub stack_bytes: u64,
}

impl Limits {
    fn parser(&self) -> ParserLimits {
        ParserLimits {
            max_items_in_row: self.row_items as usize,
            initial_lexer_fuel: self.compile_work,
            step_lexer_fuel: self.step_work,
            step_max_items: self.step_items as usize,
            max_lexer_states: self.lexer_states as usize,
            max_grammar_size: self.symbols as usize,
            // Disabled: this precomputation runs before the first token, and no limit bounds its
            // time.
            precompute_large_lexemes: false,
            verbose_errors: false,
        }
    }
}

pub struct Grammar {
    /// A matcher at the grammar's start; it is cloned and never advanced.
    fresh: llguidance::Matcher,
    stops: Arc<[u32]>,
    held: Arc<AtomicI64>,
    limit: i64,
}

impl Grammar {
    pub fn compile(
        vocabulary: &Vocabulary,
        kind: u32,
        source: &[u8],
        limits: &Limits,
    ) -> Result<Self, String> {
        let factory = Arc::clone(&vocabulary.factory);
        let source = String::from_utf8(source.to_vec()).map_err(|error| error.to_string())?;
        let parser_limits = limits.parser();
        let compile = move || -> Result<(llguidance::Matcher, i64), String> {
            let before = memory::held();
            let grammar = read(kind, source)?;
            let parser = factory.create_parser_from_init_ext(
                GrammarInit::Serialized(grammar),
                Logger::new(0, 0),
                InferenceCapabilities::default(),
                parser_limits,
            );
            let matcher = llguidance::Matcher::new(parser);
            match matcher.get_error() {
                Some(error) => Err(error),
                None => Ok((matcher, memory::held() - before)),
            }
        };
        let thread = thread::Builder::new()
            .name("perigee-grammar".to_string())
            .stack_size(limits.stack_bytes as usize)
            .spawn(compile)
            .map_err(|error| format!("no thread to compile on: {error}"))?;
        let (fresh, held) = thread.join().map_err(crate::reason)??;
        Ok(Grammar {
            fresh,
            stops: Arc::clone(&vocabulary.stops),
            held: Arc::new(AtomicI64::new(held)),
            limit: limits.bytes as i64,
        })
    }

    pub fn bytes(&self) -> i64 {
        self.held.load(Ordering::Relaxed)
    }

    pub fn matcher(&self) -> Matcher {
        let before = memory::held();
        let inner = self.fresh.clone();
        self.held.fetch_add(memory::held() - before, Ordering::Relaxed);
        Matcher::new(inner, Arc::clone(&self.stops), Arc::clone(&self.held), self.limit)
    }
}

/// Parses a JSON schema (kind 0) or a Lark grammar (kind 1).
fn read(kind: u32, source: String) -> Result<TopLevelGrammar, String> {
    if kind == 1 {
        return Ok(TopLevelGrammar::from_lark(source));
    }
    let schema = serde_json::from_str(&source).map_err(|error| error.to_string())?;
    Ok(TopLevelGrammar::from_json_schema(schema))
}
