"""Measures the exported model with Hugging Face: questions, JSON, tool calls, documentation, samples."""

import argparse
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.data.chatml import Chat, render, render_assistant
from training.data.mixture import make_chat, mine_sources
from training.data.names import Names

Answer = Callable[[list[str], int], list[str]]
Case = tuple[str, str]
"""A prompt and the wanted output."""


def normalise(text: str) -> str:
    """Lower case, one blank between words, no full stop at the end."""
    return re.sub(r"\s+", " ", text).strip().rstrip(".").lower()


def make_answerer(model: Any, tokenizer: Any, batch: int = 100) -> Answer:
    """A function that continues prompts greedily."""

    @torch.no_grad()
    def answer(prompts: list[str], new_tokens: int) -> list[str]:
        outputs: dict[int, str] = {}
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            inputs = tokenizer(
                [prompts[i] for i in chosen],
                return_tensors="pt",
                padding=True,
                add_special_tokens=False,
            ).to(model.device)
            ids = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=new_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
            )
            for i, row in zip(chosen, ids[:, inputs["input_ids"].shape[1] :]):
                outputs[i] = tokenizer.decode(row, skip_special_tokens=True).strip()
        return [outputs[i] for i in range(len(prompts))]

    return answer


def evaluate_questions(answer: Answer, path: Path) -> dict[str, Any]:
    """Exact match on qa.jsonl, answerable and not."""
    items = [json.loads(line) for line in path.read_text().splitlines()]
    outputs = answer([render(Chat(item["messages"]), generation_prompt=True) for item in items], 40)
    scores: dict[str, list[bool]] = {"answerable": [], "unanswerable": [], "normalised": []}
    failures = []
    for item, output in zip(items, outputs):
        right = output == item["answer"]
        scores["answerable" if item["answerable"] else "unanswerable"].append(right)
        scores["normalised"].append(normalise(output) == normalise(item["answer"]))
        if not right and len(failures) < 25:
            failures.append(
                {
                    "id": item["id"],
                    "question": item["question"],
                    "wanted": item["answer"],
                    "got": output,
                }
            )
    both = scores["answerable"] + scores["unanswerable"]
    result = {f"exact_{name}": sum(hits) / len(hits) for name, hits in scores.items()}
    return {"count": len(items), "exact": sum(both) / len(both), **result, "failures": failures}


def last_answer(chat: Chat) -> Case:
    """The prompt before the last assistant message, and that message."""
    index = max(i for i, m in enumerate(chat.messages) if m["role"] == "assistant")
    return render(Chat(chat.messages[:index], chat.tools), True), render_assistant(
        chat.messages[index]
    )


def first_call(chat: Chat) -> Case | None:
    """The prompt before the first function call, and the call."""
    for index, message in enumerate(chat.messages):
        if message.get("tool_calls"):
            return render(Chat(chat.messages[:index], chat.tools), True), render_assistant(message)
    return None


def parse(text: str) -> Any:
    """The JSON value of an output, of its tool call if it has one, or None."""
    found = re.search(r"<tool_call>\n(.*)\n</tool_call>", text, re.S)
    try:
        return json.loads(found[1] if found else text)
    except ValueError:
        return None


def evaluate_cases(
    answer: Answer, cases: list[Case], as_json: bool, new_tokens: int = 200
) -> dict[str, Any]:
    """Validity (of JSON) and exactness on cases."""
    outputs = answer([prompt for prompt, _ in cases], new_tokens)
    wanted = [text.removesuffix("<|im_end|>").strip() for _, text in cases]
    exact = [parse(o) == parse(w) if as_json else o == w for o, w in zip(outputs, wanted)]
    result: dict[str, Any] = {"count": len(cases), "exact": sum(exact) / len(exact)}
    if as_json:
        result["valid"] = sum(parse(o) is not None for o in outputs) / len(outputs)
    result["failures"] = [
        {"wanted": w, "got": o} for w, o, e in zip(wanted, outputs, exact) if not e
    ][:12]
    return result


def generated_cases(task: str, count: int, seed: str) -> list[Case]:
    """Held-out cases of a generated task."""
    names, sources = Names(random.Random(f"{seed}:{task}:evaluate"), "eval"), mine_sources("eval")
    cases: list[Case] = []
    while len(cases) < count:
        chat = make_chat(task, sources, names)
        case = first_call(chat) if task == "tool" else last_answer(chat)
        if case and len(case[0]) < 5000:
            cases.append(case)
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument(
        "--fixtures", type=Path, default=Path("test/fixtures/pocket"), help="where qa.jsonl is"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", default="pocket-1")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    answer = make_answerer(model, tokenizer)
    report = {"qa": evaluate_questions(answer, arguments.fixtures / "qa.jsonl")}
    for task, count in (("json", 300), ("tool", 200), ("doc-qa", 200)):
        cases = generated_cases(task, count, arguments.seed)
        report[task] = evaluate_cases(answer, cases, task in ("json", "tool"))
    arguments.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    for name, scores in report.items():
        print(name, {k: v for k, v in scores.items() if k != "failures"})
        for failure in scores["failures"][:8]:
            print("   ", json.dumps(failure, ensure_ascii=False)[:300])


if __name__ == "__main__":
    main()
