"""Records what sentence-transformers makes of a tiny BERT, by way of pooling and of reading text.

    pip install torch transformers sentence-transformers
    python -m training.recordings.sentence_encoder

writes test/fixtures/models/bert-sentence: weights (bf16, which both sides compute with in fp32) and
expected.json, which has for each variant the files of its folder and the vectors of all texts.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "test/fixtures/models/bert-sentence"
TOKENIZER = ROOT / "test/fixtures/tokenizers/bert-wordpiece/tokenizer.json"
HIDDEN = 16
TEXTS = [
    "The cache keeps blocks of keys and values.",
    "A short one",
    "Every request waits for the blocks of its prefix, and every block that nobody holds may go.",
]
FLAGS = [
    "cls_token",
    "max_tokens",
    "mean_tokens",
    "mean_sqrt_len_tokens",
    "weightedmean_tokens",
    "lasttoken",
]


def flags(*modes: str) -> dict:
    """A pooling configuration as folders of all years have it: a flag for each mode."""
    chosen = {f"pooling_mode_{name}": name in modes for name in FLAGS}
    return {"word_embedding_dimension": HIDDEN, **chosen}


def variant(pooling: dict | None, normalize: bool = False, **more) -> dict:
    """The files of one folder. `more`: those of sentence_bert_config.json."""
    files: dict = {
        "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False, **more}
    }
    if pooling is None:
        return files
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if normalize else [])
    files["modules.json"] = [
        {
            "idx": place,
            "name": str(place),
            "path": "" if place == 0 else f"{place}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    files["1_Pooling/config.json"] = pooling
    return files


VARIANTS = {
    "mean of length 1": variant(flags("mean_tokens"), normalize=True),
    "mean": variant(flags("mean_tokens")),
    "cls": variant(flags("cls_token")),
    "cls of length 1": variant(flags("cls_token"), normalize=True),
    "max": variant(flags("max_tokens")),
    "mean_sqrt_len_tokens": variant(flags("mean_sqrt_len_tokens")),
    "weightedmean": variant(flags("weightedmean_tokens")),
    "lasttoken": variant(flags("lasttoken")),
    "three joined, of length 1": variant(
        flags("cls_token", "max_tokens", "mean_tokens"), normalize=True
    ),
    "a list of modes": variant(
        {"embedding_dimension": HIDDEN, "pooling_mode": ["lasttoken", "cls"]}
    ),
    "no flag": variant(flags()),
    "texts of 16 tokens": variant(flags("mean_tokens"), max_seq_length=16),
    "lower case first": variant(flags("mean_tokens"), do_lower_case=True),
}


def make_model() -> BertModel:
    torch.manual_seed(12)
    config = BertConfig(
        vocab_size=1500,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0, 0.4)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1)
            weight.copy_(weight.bfloat16().float())
    return model.eval()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    model = make_model()
    weights = {
        name: weight.bfloat16().contiguous() for name, weight in model.state_dict().items()
    }
    weights = {name: weight for name, weight in weights.items() if "position_ids" not in name}
    save_file(weights, OUT / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "dtype": "float32", "architectures": ["BertModel"]}
    (OUT / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    recorded = {}
    for name, files in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(OUT / "config.json", folder)
            shutil.copy(OUT / "model.safetensors", folder)
            tokenizer = json.loads(TOKENIZER.read_text())
            if files["sentence_bert_config.json"]["do_lower_case"]:
                tokenizer["normalizer"]["lowercase"] = False
            Path(folder, "tokenizer.json").write_text(json.dumps(tokenizer))
            tokens = {"tokenizer_class": "BertTokenizerFast", "model_max_length": 512}
            tokens |= {
                "pad_token": "[PAD]",
                "cls_token": "[CLS]",
                "sep_token": "[SEP]",
                "unk_token": "[UNK]",
            }
            tokens |= {"do_lower_case": tokenizer["normalizer"]["lowercase"]}
            Path(folder, "tokenizer_config.json").write_text(json.dumps(tokens))
            for path, content in files.items():
                Path(folder, path).parent.mkdir(exist_ok=True)
                Path(folder, path).write_text(json.dumps(content))
            Path(folder, "2_Normalize").mkdir(exist_ok=True)
            encoder = SentenceTransformer(
                folder, device="cpu", model_kwargs={"dtype": torch.float32}
            )
            vectors = encoder.encode(TEXTS, batch_size=1)
            recorded[name] = {
                "files": files,
                "tokens": [len(encoder.tokenize([text])["input_ids"][0]) for text in TEXTS],
                "vectors": [
                    [float(f"{value:.8g}") for value in vector] for vector in vectors.tolist()
                ],
            }
    out = {"texts": TEXTS, "variants": recorded}
    (OUT / "expected.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
