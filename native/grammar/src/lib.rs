//! Structured output: the tokens that a grammar allows next. A C interface to llguidance.
//!
//! Objects are opaque pointers that the caller frees. A grammar keeps its vocabulary alive and a
//! matcher its grammar, so they can be freed in any order. An object must be used by one thread at
//! a time; the matchers of one grammar share its lexer and count as one object.
//!
//! Nothing unwinds into the caller: a panic becomes an ordinary error. Errors are zero-terminated
//! UTF-8 text in the caller's buffer.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod glibc;
mod grammar;
mod guard;
mod matcher;
mod memory;
mod spelling;
mod vocabulary;

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use grammar::{Grammar, Limits};
use matcher::{Failure, Matcher};
use vocabulary::Vocabulary;

/// Version of this interface; the caller checks that it matches its own.
pub const ABI: u32 = 3;

/// The caller's buffer for an error message.
#[repr(C)]
pub struct ErrorText {
    text: *mut c_char,
    bytes: u32,
}

impl ErrorText {
    fn write(&self, message: &str) {
        if self.text.is_null() || self.bytes == 0 {
            return;
        }
        let room = self.bytes as usize - 1;
        let mut length = message.len().min(room);
        while !message.is_char_boundary(length) {
            length -= 1;
        }
        unsafe {
            std::ptr::copy_nonoverlapping(message.as_ptr(), self.text.cast(), length);
            *self.text.add(length) = 0;
        }
    }
}

/// The message of a panic.
fn reason(panic: Box<dyn std::any::Any + Send>) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_else(|| "the grammar library failed".to_string())
}

/// Boxes the result of `work` for the caller. On failure returns null and writes the reason.
fn boxed<T>(error: &ErrorText, work: impl FnOnce() -> Result<T, String>) -> *mut T {
    let made = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(reason(panic)));
    match made {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(message) => {
            error.write(&message);
            std::ptr::null_mut()
        }
    }
}

/// Returns the non-negative result of `work`; -1 for an error, -2 for an exceeded limit.
fn counted(error: &ErrorText, work: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Failure::Error(reason(panic))));
    match done {
        Ok(value) => value,
        Err(Failure::Error(message)) => {
            error.write(&message);
            -1
        }
        Err(Failure::Limit(message)) => {
            error.write(&message);
            -2
        }
    }
}

unsafe fn slice<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, count as usize) } }
}

fn free<T>(object: *mut T) {
    if !object.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(object) })));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn perigee_grammar_abi() -> u32 {
    // Panics are returned as errors, so nothing is printed to standard error.
    std::panic::set_hook(Box::new(|_| {}));
    ABI
}

/// Makes the process exit if a thread holds more than `bytes`, or after `milliseconds`. For
/// processes that only try grammars out.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_guard_arm(bytes: i64, milliseconds: u32) {
    guard::arm(bytes, std::time::Duration::from_millis(milliseconds.into()));
}

#[unsafe(no_mangle)]
pub extern "C" fn perigee_guard_disarm() {
    guard::disarm();
}

/// `ends` [count]: end offset of each token in `bytes`; an empty token is never allowed. `stops`
/// [stop_count]: tokens that end an output. Takes about a second for 150,000 tokens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_vocabulary_create(
    bytes: *const u8,
    ends: *const u32,
    count: u32,
    stops: *const u32,
    stop_count: u32,
    error: &ErrorText,
) -> *mut Vocabulary {
    let (ends, stops) = unsafe { (slice(ends, count), slice(stops, stop_count)) };
    let bytes = unsafe { slice(bytes, ends.last().copied().unwrap_or(0)) };
    boxed(error, || Vocabulary::new(bytes, ends, stops))
}

#[unsafe(no_mangle)]
pub extern "C" fn perigee_vocabulary_free(vocabulary: *mut Vocabulary) {
    free(vocabulary);
}

/// `source` [length]: UTF-8; `kind` 0 is a JSON schema, 1 is Lark. Blocks until it is compiled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_grammar_compile(
    vocabulary: &Vocabulary,
    kind: u32,
    source: *const u8,
    length: u32,
    limits: &Limits,
    error: &ErrorText,
) -> *mut Grammar {
    let source = unsafe { slice(source, length) };
    boxed(error, || Grammar::compile(vocabulary, kind, source, limits))
}

/// Bytes that the grammar and its matchers hold.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_grammar_bytes(grammar: &Grammar) -> i64 {
    grammar.bytes()
}

#[unsafe(no_mangle)]
pub extern "C" fn perigee_grammar_free(grammar: *mut Grammar) {
    free(grammar);
}

/// Creates a matcher at the start of the grammar.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_matcher_create(grammar: &Grammar, error: &ErrorText) -> *mut Matcher {
    boxed(error, || Ok(grammar.matcher()))
}

/// Writes the mask of the tokens that may come next, `mask` [words], bit set = allowed. Returns the
/// work that it took, or -1 or -2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_matcher_mask(
    matcher: &mut Matcher,
    mask: *mut u32,
    words: u32,
    error: &ErrorText,
) -> i64 {
    let mask = unsafe { std::slice::from_raw_parts_mut(mask, words as usize) };
    counted(error, || matcher.mask(mask))
}

/// Advances by the next token. Returns 1; 0, with no change, if the token is not allowed; -1 or -2.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_matcher_accept(
    matcher: &mut Matcher,
    token: u32,
    error: &ErrorText,
) -> i64 {
    counted(error, || matcher.accept(token).map(i64::from))
}

/// Rolls back the last `count` tokens. Returns 0 or -1.
#[unsafe(no_mangle)]
pub extern "C" fn perigee_matcher_rollback(
    matcher: &mut Matcher,
    count: u32,
    error: &ErrorText,
) -> i64 {
    counted(error, || matcher.rollback(count as usize).map(|()| 0))
}

/// Writes tokens, at most `room`, that spell the text which alone may come next. Returns their
/// number, or -1 or -2. Other tokens may spell it, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_matcher_forced(
    matcher: &mut Matcher,
    tokens: *mut u32,
    room: u32,
    error: &ErrorText,
) -> i64 {
    let tokens = unsafe { std::slice::from_raw_parts_mut(tokens, room as usize) };
    counted(error, || matcher.forced(tokens))
}

#[unsafe(no_mangle)]
pub extern "C" fn perigee_matcher_free(matcher: *mut Matcher) {
    free(matcher);
}
