//! Spells a text in tokens, about as the model's tokenizer does.
//!
//! Byte-pair encoding merges the pair whose token is the oldest, and tokens are numbered by age: so
//! the number of a token says when it is merged. Texts are cut first, where letters, digits, spaces
//! and other characters meet, as most tokenizers cut them. Where a tokenizer differs, the spelling
//! is another one of the same text.
use llguidance::toktrie::TokTrie;

/// Bytes that are spelled: more than a draft has.
const BYTES_MAX: usize = 256;

#[derive(PartialEq, Clone, Copy)]
enum Class {
    Letter,
    Digit,
    Space,
    Other,
}

fn class_of(byte: u8) -> Class {
    match byte {
        b'0'..=b'9' => Class::Digit,
        b' ' | b'\t' | b'\r' | b'\n' => Class::Space,
        // Characters beyond ASCII are mostly letters.
        _ if byte.is_ascii_alphabetic() || byte >= 0x80 => Class::Letter,
        _ => Class::Other,
    }
}

/// Tokens of the beginning of a text, up to a byte that no token spells.
pub fn spell(trie: &TokTrie, text: &[u8]) -> Vec<u32> {
    let text = &text[..text.len().min(BYTES_MAX)];
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = piece_end(text, start);
        for part in merged(trie, &text[start..end]) {
            match trie.token_id_at_bytes(part) {
                Some(token) => tokens.push(token),
                None => return tokens,
            }
        }
        start = end;
    }
    tokens
}

/// Where the piece that begins at `start` ends. A space belongs to the word behind it.
fn piece_end(text: &[u8], start: usize) -> usize {
    let mut class = class_of(text[start]);
    let mut end = start + 1;
    if text[start] == b' ' && end < text.len() && class_of(text[end]) == Class::Letter {
        class = Class::Letter;
    }
    if class == Class::Digit {
        return end;
    }
    while end < text.len() && class_of(text[end]) == class {
        end += 1;
    }
    end
}

/// The parts of a piece, after all merges.
fn merged<'a>(trie: &TokTrie, piece: &'a [u8]) -> Vec<&'a [u8]> {
    // Part n is from ends[n - 1] up to ends[n].
    let mut ends: Vec<usize> = (1..=piece.len()).collect();
    loop {
        let mut oldest = None;
        for at in 0..ends.len().saturating_sub(1) {
            let start = if at == 0 { 0 } else { ends[at - 1] };
            if let Some(token) = trie.token_id_at_bytes(&piece[start..ends[at + 1]]) {
                if oldest.is_none_or(|(known, _)| token < known) {
                    oldest = Some((token, at));
                }
            }
        }
        match oldest {
            Some((_, at)) => ends.remove(at),
            None => break,
        };
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends.iter()).map(|(start, &end)| &piece[start..end]).collect()
}
