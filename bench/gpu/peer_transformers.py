"""Rows of the GPU's table by Hugging Face transformers, on the same card.

python3 bench/gpu/peer_transformers.py [--rows decode-1,prefill-8192,requests-256] [--json FILE]
                                       [--model FOLDER] [--seconds 200] [--device cuda]

Llama-3.1-8B with random bf16 weights (bench/gpu/llama-3.1-8b/config.json), greedy; medians:

  decode-1      batch 1 around 128 tokens of context, static cache, its forward compiled, tok/s
  prefill-8192  one prompt of 8192 tokens, scaled-dot-product attention, tok/s
  requests-256  256 prompts of 512 tokens, 128 tokens each, in batches that fit; s

Prints JSON; bench/gpu/table.mjs --transformers FILE puts its rows beside ours. A row that fails has
its message. Needs torch and transformers; the compiled row a C compiler and Python's headers, too.
--device cpu with the folder of a small config.json tries whether all rows run. The file cannot have
the package's own name: Python looks beside the script first.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

VOCABULARY_SAFE = 100_000
ROWS = ("prefill-8192", "requests-256", "decode-1")


def main() -> int:
    arguments = parse_arguments()
    # Nothing here is on a hub, and asking one without a network takes its time-out.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"Cannot measure transformers: {error}", file=sys.stderr)
        return 1
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("Cannot measure transformers: torch finds no GPU", file=sys.stderr)
        return 1
    started = time.monotonic()
    model = load(torch, transformers, arguments)
    rows = {}
    for row in arguments.rows.split(","):
        left = arguments.seconds - (time.monotonic() - started)
        rows[row] = measure(torch, model, row, left)
        print(f"{row}: {rows[row]}", file=sys.stderr)
    result = {
        "gpu": torch.cuda.get_device_name(0) if arguments.device == "cuda" else "none",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "seconds": round(time.monotonic() - started, 1),
        "rows": rows,
    }
    text = json.dumps(result, indent=2)
    if arguments.json is not None:
        Path(arguments.json).write_text(text + "\n")
    print(text)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(__file__).parent / "llama-3.1-8b"
    parser.add_argument("--rows", default=",".join(ROWS), help="of " + ", ".join(ROWS))
    parser.add_argument("--model", default=str(folder), help="folder with a config.json")
    parser.add_argument("--seconds", type=float, default=200, help="no row begins after these")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", help="file for the result")
    return parser.parse_args()


def load(torch, transformers, arguments: argparse.Namespace):
    """The model on its device; random weights are made there, bf16 from the start."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(arguments.model)
    with torch.device(arguments.device):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    # `to` moves what a constructor put elsewhere in spite of the default.
    return model.to(arguments.device).eval()


def measure(torch, model, row: str, seconds_left: float) -> dict:
    """One row, or why there is none."""
    if seconds_left <= 0:
        return {"error": "no time left"}
    measures = {"decode-1": decode, "prefill-8192": prefill, "requests-256": requests}
    if row not in measures:
        return {"error": f"unknown row; wanted one of {', '.join(ROWS)}"}
    try:
        # As `generate` itself does; inference mode's tensors cannot become a compiled graph's own.
        with torch.no_grad():
            return measures[row](torch, model)
    except Exception as error:  # noqa: BLE001 - whatever a row fails with, the others go on.
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        torch.cuda.empty_cache()  # nothing where there is no GPU


def prompts(torch, model, count: int, length: int):
    """[count, length] random token ids."""
    high = min(VOCABULARY_SAFE, model.config.vocab_size)
    return torch.randint(0, high, (count, length), device=model.device)


def timed(torch, work) -> float:
    """Seconds of `work`, until the GPU is done."""
    finish = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    finish()
    begun = time.perf_counter()
    work()
    finish()
    return time.perf_counter() - begun


def decode(torch, model, prompt=32, first=32, tokens=128, runs=3) -> dict:
    """Batch 1 around 128 tokens of context: what `tokens` more take than the `first` ones.

    `generate` compiles the forward of a static cache by itself; what each call costs beside its
    steps, recording their graph among it, is in both times alike.
    """
    static = {"cache_implementation": "static"}
    rates = []
    for run in range(runs + 1):
        ids = prompts(torch, model, 1, prompt)
        # The longer one first: the cache keeps its length, so that nothing is compiled again.
        long = timed(torch, lambda: generate(model, ids, first + tokens, **static))
        short = timed(torch, lambda: generate(model, ids, first, **static))
        if run > 0:
            rates.append(tokens / (long - short))
    return {"value": statistics.median(rates), "unit": "tok/s", "runs": rates}


def prefill(torch, model, length=8192, runs=5) -> dict:
    """One prompt at once; logits of the last token only, as a server wants them."""
    rates = []
    for run in range(runs + 2):
        ids = prompts(torch, model, 1, length)
        seconds = timed(torch, lambda: model(ids, use_cache=True, logits_to_keep=1))
        if run >= 2:
            rates.append(length / seconds)
    return {"value": statistics.median(rates), "unit": "tok/s", "runs": rates}


def requests(torch, model, count=256, length=512, tokens=128) -> dict:
    """All requests, in the largest batches that fit; eager, with a cache that grows."""
    for batch in (256, 128, 64, 32):
        # Here, since what a failed try held is only let go of behind its `except`.
        torch.cuda.empty_cache()
        try:
            ids = prompts(torch, model, batch, length)
            generate(model, ids, 2)
            parts = [prompts(torch, model, batch, length) for _ in range(count // batch)]
            seconds = timed(torch, lambda: [generate(model, part, tokens) for part in parts])
            return {"value": seconds, "unit": "s", "runs": [seconds], "batch": batch}
        except torch.cuda.OutOfMemoryError:
            continue
    return {"error": "no batch fits"}


def generate(model, ids, tokens: int, **options):
    """Greedy, to the full length."""
    return model.generate(
        ids,
        attention_mask=ids.new_ones(ids.shape),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
        **options,
    )


if __name__ == "__main__":
    sys.exit(main())
