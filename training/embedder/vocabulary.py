"""Trains the student's tokenizer: WordPiece, lower case, as BERT cuts words."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordPieceTrainer

from training.data.corpus import hash_fraction
from training.embedder.texts import read_texts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OUT = Path(".embedder/tokenizer.json")


def sample(share: float) -> Iterator[str]:
    """Texts of a share of the documents; the whole dictionary, as plain text."""
    for document in read_texts("train"):
        if document["kind"] == "dictionary":
            for synset in json.loads(document["text"]):
                yield " ".join([*synset["words"], synset["gloss"], *synset["examples"]])
        elif hash_fraction(f"vocabulary/{document['path']}") < share:
            yield document["text"]


def make_tokenizer(texts: Iterator[str], size: int) -> Tokenizer:
    """A tokenizer of exactly `size` tokens, the special ones first."""
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, limit_alphabet=220, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--share", type=float, default=0.3, help="of the documents that are read")
    options = parser.parse_args()
    tokenizer = make_tokenizer(sample(options.share), options.size)
    # A decoder of WordPiece, so that ids can be read back.
    content = json.loads(tokenizer.to_str())
    content["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    OUT.write_text(json.dumps(content, ensure_ascii=False))
    print(f"{tokenizer.get_vocab_size()} tokens, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
