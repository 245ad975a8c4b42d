"""The other side of embed.mjs: sentence-transformers, one answer per line of standard input."""

import json
import sys
import time

import torch

folder, threads = sys.argv[1], int(sys.argv[2])
device, dtype, batch = sys.argv[3], getattr(torch, sys.argv[4]), int(sys.argv[5])
torch.set_num_threads(threads)

import sentence_transformers  # noqa: E402
import transformers  # noqa: E402

model = sentence_transformers.SentenceTransformer(
    folder, device=device, model_kwargs={"dtype": dtype}
)
texts: list[str] = []
for line in sys.stdin:
    message = json.loads(line)
    if "texts" in message:
        texts = message["texts"]
        answer = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "sentence-transformers": sentence_transformers.__version__,
            "threads": torch.get_num_threads(),
        }
    else:
        begin, used = time.perf_counter(), time.process_time()
        vectors = model.encode(texts, batch_size=batch)
        answer = {
            "seconds": time.perf_counter() - begin,
            "processorSeconds": time.process_time() - used,
            "vectors": vectors.tolist(),
        }
    print(json.dumps(answer), flush=True)
