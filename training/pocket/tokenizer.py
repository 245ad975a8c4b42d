"""Trains the byte-level BPE of 4,096 tokens and writes tokenizer.json and tokenizer_config.json."""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.data.chatml import ADDED_TOKENS, END, PAD, SPECIAL_TOKENS, chat_template
from training.data.corpus import read_corpus
from training.data.mixture import TASK_SHARES, make_pieces, mine_sources
from training.data.names import Names

VOCABULARY = 4096
# Digits stand alone, so that numbers are copied digit by digit and take no merges.
SPLIT = (
    r"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PROSE_CHARS = 24_000_000
CHAT_SAMPLES = 12_000


def training_texts(seed: str) -> Iterator[str]:
    """A seeded sample of documentation and of every generated task."""
    rng = random.Random(f"{seed}:tokenizer")
    documents = read_corpus("train")
    rng.shuffle(documents)
    total = 0
    for document in documents:
        total += len(document["text"])
        if total > PROSE_CHARS:
            break
        yield document["text"]
    sources, names = mine_sources("train"), Names(rng, "train")
    for _ in range(CHAT_SAMPLES):
        task = rng.choices(list(TASK_SHARES), list(TASK_SHARES.values()))[0]
        for text, _ in make_pieces(task, sources, names):
            yield text


def train_tokenizer(seed: str) -> Tokenizer:
    """The tokenizer: special tokens have the first ids, the tool-call tags the last ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(ADDED_TOKENS),
        special_tokens=SPECIAL_TOKENS,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=24,
    )
    tokenizer.train_from_iterator(training_texts(seed), trainer)
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=False) for text in ADDED_TOKENS]
    )
    return tokenizer


def config(context: int) -> dict:
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": None,
        "eos_token": END,
        "pad_token": PAD,
        "unk_token": None,
        "additional_special_tokens": SPECIAL_TOKENS,
        "chat_template": chat_template(),
        "added_tokens_decoder": {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("models/pocket"))
    parser.add_argument("--seed", default="pocket-1")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(arguments.seed)
    tokenizer.save(str(arguments.out / "tokenizer.json"))
    document = json.loads((arguments.out / "tokenizer.json").read_text())
    details = config(2048)
    details["added_tokens_decoder"] = {
        str(token["id"]): {
            key: token[key]
            for key in ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
        }
        for token in document["added_tokens"]
    }
    (arguments.out / "tokenizer_config.json").write_text(
        json.dumps(details, indent=1, ensure_ascii=False) + "\n"
    )
    print("vocabulary", tokenizer.get_vocab_size())


if __name__ == "__main__":
    main()
