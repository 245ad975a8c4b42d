"""Layouts of published embedding models and rerankers, as tiny models that `embedders.py` records."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    NomicBertConfig,
    NomicBertModel,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

HIDDEN = 16
CONTEXT = 64
# Of each tokenizer: the first tokens alone, which keeps the tables of tokens small.
VOCABULARY = 600


def framed(cls: str, sep: str, ids: dict[str, int], double_sep: bool = False) -> dict:
    """A post-processor that frames a text, and a pair of them as the layout's authors do."""

    def special(name: str, kind: int) -> dict:
        return {"SpecialToken": {"id": name, "type_id": kind}}

    def sequence(name: str, kind: int) -> dict:
        return {"Sequence": {"id": name, "type_id": kind}}

    second = 0 if double_sep else 1
    between = [special(sep, 0), special(sep, 0)] if double_sep else [special(sep, 0)]
    single = [special(cls, 0), sequence("A", 0), special(sep, 0)]
    pair = [special(cls, 0), sequence("A", 0), *between, sequence("B", second), special(sep, second)]
    tokens = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (cls, sep)}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": tokens,
    }


BERT_TOKENIZER = {
    "base": "bert-wordpiece",
    "patch": {"post_processor": framed("[CLS]", "[SEP]", {"[CLS]": 2, "[SEP]": 3})},
}
BERT_TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
}
# The first tokens of a vocabulary are special: their spellings are free.
UNIGRAM_TOKENIZER = {
    "base": "unigram-metaspace",
    "patch": {"post_processor": framed("<unk>", "</s>", {"<unk>": 0, "</s>": 1}, double_sep=True)},
}
UNIGRAM_TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "</s>",
    "cls_token": "<unk>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "model_input_names": ["input_ids", "attention_mask"],
}
BYTE_IDS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
BYTE_TOKENIZER = {
    "base": "gpt2-byte-bpe",
    "patch": {"post_processor": framed("<|im_start|>", "<|im_end|>", BYTE_IDS)},
}
BYTE_TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "<|endoftext|>",
    "cls_token": "<|im_start|>",
    "sep_token": "<|im_end|>",
    "model_input_names": ["input_ids", "attention_mask"],
}
QWEN_TOKENIZER = {
    "base": "gpt2-byte-bpe",
    "patch": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
            ],
            "special_tokens": {
                "<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}
            },
        }
    },
}
QWEN_TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "<|endoftext|>",
    "eos_token": "<|endoftext|>",
    "padding_side": "left",
    "model_input_names": ["input_ids", "attention_mask"],
}


def bert() -> torch.nn.Module:
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=CONTEXT,
            num_labels=1,
        )
    )


def xlm_roberta() -> torch.nn.Module:
    return XLMRobertaForSequenceClassification(
        XLMRobertaConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=CONTEXT + 2,
            type_vocab_size=1,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=1,
            num_labels=1,
        )
    )


def modern_bert() -> torch.nn.Module:
    return ModernBertForSequenceClassification(
        ModernBertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=4,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=CONTEXT,
            local_attention=8,
            pad_token_id=0,
            bos_token_id=1,
            cls_token_id=1,
            eos_token_id=2,
            sep_token_id=2,
            classifier_pooling="mean",
            num_labels=1,
        )
    )


def nomic_bert() -> torch.nn.Module:
    return NomicBertModel(
        NomicBertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=CONTEXT,
        )
    )


def qwen3() -> torch.nn.Module:
    return Qwen3Model(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=32,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=False,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def embedder(
    pooling: str,
    *,
    normalize: bool = True,
    prompts: dict | None = None,
    default: str | None = None,
    include_prompt: bool | None = None,
    **text,
) -> dict:
    """The files of one folder of an embedding model. `text`: sentence_bert_config.json."""
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if normalize else [])
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": "" if place == 0 else f"{place}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    pool: dict = {"word_embedding_dimension": HIDDEN, f"pooling_mode_{pooling}": True}
    if pooling != "mean_tokens":
        pool["pooling_mode_mean_tokens"] = False
    if include_prompt is not None:
        pool["include_prompt"] = include_prompt
    files = {"modules.json": modules, "1_Pooling/config.json": pool}
    if text:
        files["sentence_bert_config.json"] = text
    if prompts is not None:
        files["config_sentence_transformers.json"] = {
            "prompts": prompts,
            "default_prompt_name": default,
        }
    return files


E5 = {"query": "query: ", "document": "passage: "}
QWEN_QUERY = "Instruct: Given a question, find what answers it\nQuery:"

# Prompts that the folder does not have, but the model's name says: given to both sides.
LAYOUTS = {
    "bert": {
        "model": bert,
        "tokenizer": BERT_TOKENIZER,
        "tokens": BERT_TOKENS,
        "embedders": {
            "MiniLM": {"files": embedder("mean_tokens", max_seq_length=48, do_lower_case=False)},
            "BGE, with its prompt": {
                "files": embedder(
                    "cls_token", prompts={"query": "Represent this: ", "document": ""}
                )
            },
            "E5, whose name says the prompts": {"files": embedder("mean_tokens"), "given": E5},
            "GTE": {"files": embedder("mean_tokens", normalize=False)},
            "prompts that are not pooled": {
                "files": embedder("mean_tokens", prompts=E5, include_prompt=False)
            },
            "weighted means without the prompt": {
                "files": embedder(
                    "weightedmean_tokens", normalize=False, prompts=E5, include_prompt=False
                )
            },
            "the row behind the prompt": {
                "files": embedder("cls_token", prompts=E5, include_prompt=False)
            },
            "a default prompt": {
                "files": embedder(
                    "mean_tokens", prompts={**E5, "other": "title: "}, default="other"
                )
            },
        },
        "rerankers": {
            "scores of 0 to 1": {"config": {}},
            "logits": {
                "config": {
                    "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"
                }
            },
            "logits, as newer files say it": {
                "config": {
                    "sentence_transformers": {
                        "activation_fn": "torch.nn.modules.linear.Identity",
                        "version": "5.0.0",
                    }
                }
            },
            "texts of 32 tokens": {"config": {}, "tokens": {"model_max_length": 32}},
        },
    },
    "xlm-roberta": {
        "model": xlm_roberta,
        "tokenizer": UNIGRAM_TOKENIZER,
        "tokens": UNIGRAM_TOKENS,
        "embedders": {
            "BGE-M3": {"files": embedder("cls_token", max_seq_length=64)},
            "multilingual E5": {"files": embedder("mean_tokens"), "given": E5},
        },
        "rerankers": {"BGE reranker": {"config": {}}},
    },
    "modernbert": {
        "model": modern_bert,
        "tokenizer": BYTE_TOKENIZER,
        "tokens": BYTE_TOKENS,
        "embedders": {
            "GTE": {"files": embedder("cls_token", normalize=False)},
            "Nomic": {
                "files": embedder(
                    "mean_tokens",
                    prompts={"query": "search_query: ", "document": "search_document: "},
                )
            },
        },
        "rerankers": {"GTE reranker": {"config": {}}},
    },
    "nomic-bert": {
        "model": nomic_bert,
        "tokenizer": BERT_TOKENIZER,
        "tokens": BERT_TOKENS,
        "embedders": {
            "Nomic": {
                "files": embedder("mean_tokens"),
                "given": {"query": "search_query: ", "document": "search_document: "},
            }
        },
    },
    "qwen3": {
        "model": qwen3,
        "tokenizer": QWEN_TOKENIZER,
        "tokens": QWEN_TOKENS,
        "embedders": {
            "Qwen3-Embedding": {
                "files": embedder(
                    "lasttoken", max_seq_length=48, prompts={"query": QWEN_QUERY, "document": ""}
                )
            }
        },
    },
}
