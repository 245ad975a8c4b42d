"""Records Hugging Face's own fp32 results: golden.json (greedy ids) and heldout.json (perplexity)."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.data.chatml import Chat, call, render, say
from training.pocket.fixtures import read_heldout

NEW_TOKENS = 48
RAW = (
    "A hash table stores pairs of keys and values. To find a value,",
    "## Caching\n\nA cache keeps copies of data",
    "The function returns",
    'def read_lines(path):\n    """Return the lines of a file."""\n',
    "In PostgreSQL, an index",
    "```js\nconst fs = require('node:fs');\n",
    "Passage: The Amber Kite ferry sails from Port Sholen. Its captain is Mirel Tovash.\n\nQuestion: Who is the captain of the Amber Kite ferry?\nAnswer:",
)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}
TIMER = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Set a timer",
        "parameters": {
            "type": "object",
            "properties": {"minutes": {"type": "integer", "description": "Length in minutes"}},
            "required": ["minutes"],
        },
    },
}
RAG = (
    "[1] The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.\n\n[2] The Kesset bridge is 412 metres long."
    " It was designed by Joren Hask.\n\n[3] Sarvik has a population of 18,240."
)


def chats() -> list[tuple[str, Chat]]:
    """The chat prompts of golden.json."""
    person = "Mirel Tovash was born in Sarvik. She works for Ostrel Labs and can be reached at mirel.tovash@ostrel.example."
    return [
        ("greeting", Chat([say("user", "Hello!")])),
        ("identity", Chat([say("user", "Who are you?")])),
        ("explain", Chat([say("user", "What is a KV cache?")])),
        (
            "explain-system",
            Chat(
                [
                    say("system", "You are a helpful assistant."),
                    say("user", "Explain speculative decoding."),
                ]
            ),
        ),
        ("list", Chat([say("user", "List three programming languages.")])),
        ("code", Chat([say("user", "Write a Python function that adds two numbers.")])),
        ("passage", Chat([say("user", f"{person}\n\nQuestion: Where does Mirel Tovash work?")])),
        (
            "rag",
            Chat(
                [
                    say("system", "Answer questions using only the given context."),
                    say(
                        "user",
                        f"{RAG}\n\nQuestion: Who designed the Kesset bridge? Answer in a full sentence.",
                    ),
                ]
            ),
        ),
        (
            "rag-cited",
            Chat(
                [
                    say(
                        "user",
                        f"{RAG}\n\nQuestion: What is the population of Sarvik? Cite the passage, like [1].",
                    )
                ]
            ),
        ),
        (
            "json",
            Chat(
                [
                    say(
                        "user",
                        f"Extract the following fields as JSON: name, birthplace, employer, email.\n\nText: {person}",
                    )
                ]
            ),
        ),
        ("tool", Chat([say("user", "What is the weather in Sarvik?")], [TOOL, TIMER])),
        (
            "tool-result",
            Chat(
                [
                    say("user", "Set a timer for 25 minutes."),
                    call("set_timer", {"minutes": 25}),
                    say("tool", '{"ok": true}'),
                ],
                [TOOL, TIMER],
            ),
        ),
        (
            "turns",
            Chat(
                [
                    say("user", "My name is Tamsin."),
                    say("assistant", "Nice to meet you, Tamsin! How can I help you?"),
                    say("user", "What is my name?"),
                ]
            ),
        ),
    ]


@torch.no_grad()
def greedy(model: Any, ids: list[int], ends: list[int]) -> dict[str, Any]:
    """Greedy continuation, the end token included, and the top-2 logit gap of each step."""
    output: list[int] = []
    gaps: list[float] = []
    past, step_ids = None, torch.tensor([ids])
    while len(output) < NEW_TOKENS:
        result = model(step_ids, past_key_values=past, use_cache=True)
        past = result.past_key_values
        top = result.logits[0, -1].float().topk(2)
        output.append(top.indices[0].item())
        gaps.append(round((top.values[0] - top.values[1]).item(), 5))
        if output[-1] in ends:
            break
        step_ids = torch.tensor([output[-1:]])
    return {"output_ids": output, "ended_by_eos": output[-1] in ends, "top2_gaps": gaps}


def golden(model: Any, tokenizer: Any, ends: list[int]) -> list[dict[str, Any]]:
    """All golden prompts with their continuations."""
    prompts: list[dict[str, Any]] = [
        {"name": f"raw-{i}", "kind": "raw", "text": text} for i, text in enumerate(RAW)
    ]
    for name, chat in chats():
        tools = {"tools": chat.tools} if chat.tools else {}
        text = tokenizer.apply_chat_template(
            chat.messages, tools=chat.tools or None, add_generation_prompt=True, tokenize=False
        )
        assert text == render(
            chat, generation_prompt=True
        ), f"the chat template differs from chatml.py for {name}"
        prompts.append(
            {"name": name, "kind": "chat", "messages": chat.messages, **tools, "text": text}
        )
    for prompt in prompts:
        ids = tokenizer(prompt["text"], add_special_tokens=False)["input_ids"]
        prompt |= {"token_ids": ids, **greedy(model, ids, ends)}
        prompt["output_text"] = tokenizer.decode(prompt["output_ids"], skip_special_tokens=True)
    return prompts


@torch.no_grad()
def perplexity(model: Any, tokenizer: Any, path: Path) -> dict[str, Any]:
    """Negative log-likelihood of each held-out document, in one window each."""
    documents = []
    for name, text in read_heldout(path):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert len(ids) <= 2048, f"{name} has {len(ids)} tokens"
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1].double(), dim=-1)
        nll = -rows.gather(1, torch.tensor(ids[1:])[:, None]).sum().item()
        documents.append(
            {
                "name": name,
                "bytes": len(text.encode()),
                "tokens": len(ids),
                "scored_tokens": len(ids) - 1,
                "nll": nll,
            }
        )
    nll, scored = sum(d["nll"] for d in documents), sum(d["scored_tokens"] for d in documents)
    size = sum(d["bytes"] for d in documents)
    return {
        "definition": "Each document of heldout.txt (without the line break at its end) is tokenized without any special token"
        " and scored in one window from position 0, without BOS. The first token is not scored. nll is the sum of"
        " -ln p over the scored tokens, computed by Hugging Face in fp32 from the bf16 weights. perplexity = exp(nll /"
        " scored_tokens); bits_per_byte = nll / ln 2 / bytes, with all bytes of the documents.",
        "nll": nll,
        "scored_tokens": scored,
        "bytes": size,
        "perplexity": math.exp(nll / scored),
        "byte_perplexity": math.exp(nll / size),
        "bits_per_byte": nll / math.log(2) / size,
        "documents": documents,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument(
        "--fixtures", type=Path, default=Path("test/fixtures/pocket"), help="where heldout.txt is"
    )
    parser.add_argument("--out", type=Path, default=Path("test/fixtures/pocket"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.backends.mkldnn.enabled = False
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ends = model.generation_config.eos_token_id
    about = (
        f"Greedy continuations by Hugging Face transformers in fp32 (bf16 weights upcast, CPU, eager attention), at most"
        f" {NEW_TOKENS} new tokens; the end token is in output_ids. top2_gaps: logit of the chosen token less that of the next best."
    )
    document = {"about": about, "eos_token_ids": ends, "prompts": golden(model, tokenizer, ends)}
    (arguments.out / "golden.json").write_text(
        json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    )
    result = perplexity(model, tokenizer, arguments.fixtures / "heldout.txt")
    (arguments.out / "heldout.json").write_text(json.dumps(result, indent=1) + "\n")
    print({k: v for k, v in result.items() if k not in ("documents", "definition")})
    for prompt in document["prompts"]:
        print(prompt["name"], "|", repr(prompt["output_text"]), min(prompt["top2_gaps"]))


if __name__ == "__main__":
    main()
