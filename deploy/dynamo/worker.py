"""Makes a Perigee worker one of Dynamo's: its frontend tokenizes, routes by KV events and streams.

    perigee worker MODEL --port 8000 --kv-events-zmq 'tcp://*:5557' --hash-algorithm sha256_cbor
    python worker.py --url http://127.0.0.1:8000 --model-path MODEL --kv-events tcp://127.0.0.1:5557

Runs beside the worker and ends with it: a worker that drains is taken out of discovery first. The
variables DYN_DISCOVERY_BACKEND, DYN_REQUEST_PLANE and DYN_EVENT_PLANE are Dynamo's own.
"""

import argparse
import asyncio
import json
import os
import signal
import sys

import httpx
from dynamo.llm import (
    KvEventPublisher,
    ModelInput,
    ModelRuntimeConfig,
    ModelType,
    WorkerType,
    register_model,
)
from dynamo.llm.exceptions import EngineShutdown, InvalidArgument, StreamIncomplete
from dynamo.runtime import DistributedRuntime

CHECK_SECONDS = 1.0
FAILED_CHECKS_MAX = 3
# Fields of Dynamo's preprocessed requests that have the same name and meaning here.
SAMPLING = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
STOPPING = ("max_tokens", "min_tokens", "stop", "ignore_eos")


class Worker:
    """One Perigee worker, as Dynamo's endpoint calls it."""

    def __init__(self, url: str, model: str, secret: str | None):
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        limits = httpx.Timeout(None, connect=2.0)
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=limits)
        self._model = model
        # Set where the worker takes no more requests.
        self.gone = asyncio.Event()

    async def info(self) -> dict:
        answer = await self._client.get("/worker_info", timeout=2.0)
        answer.raise_for_status()
        return answer.json()

    async def generate(self, request, context):
        """Streams token ids; leaving the stream cancels the request at the worker."""
        body = self._body(request)
        try:
            async with self._client.stream("POST", "/v1/completions", json=body) as answer:
                await self._check(answer)
                async for line in answer.aiter_lines():
                    if context.is_stopped() or context.is_killed():
                        return
                    if line == "data: [DONE]":
                        return
                    if line.startswith("data: "):
                        for output in outputs(json.loads(line[len("data: ") :])):
                            yield output
        except httpx.ConnectError as error:
            self.gone.set()
            raise EngineShutdown(f"the worker cannot be reached: {error}") from error
        except httpx.TransportError as error:
            raise StreamIncomplete(f"the worker's stream broke: {error}") from error
        raise StreamIncomplete("the worker's stream ended early")

    async def _check(self, answer) -> None:
        """Errors in Dynamo's terms: after some of them another worker gets the request."""
        if answer.status_code == 200:
            return
        text = (await answer.aread()).decode("utf-8", "replace")[:500]
        if answer.status_code == 503:
            self.gone.set()
            raise EngineShutdown(f"the worker drains: {text}")
        if answer.status_code in (400, 404, 413):
            raise InvalidArgument(text)
        raise RuntimeError(f"the worker answered {answer.status_code}: {text}")

    def _body(self, request: dict) -> dict:
        given = {
            **pick(request.get("sampling_options"), SAMPLING),
            **pick(request.get("stop_conditions"), STOPPING),
        }
        hidden = (request.get("stop_conditions") or {}).get("stop_token_ids_hidden")
        if hidden:
            given["stop_token_ids"] = hidden
        return {
            "model": self._model,
            "prompt": request["token_ids"],
            "stream": True,
            "return_token_ids": True,
            **given,
        }


def pick(fields: dict | None, names: tuple[str, ...]) -> dict:
    return {name: fields[name] for name in names if (fields or {}).get(name) is not None}


def outputs(chunk: dict):
    """A chunk of ours as outputs of Dynamo's."""
    if "error" in chunk:
        raise RuntimeError(chunk["error"].get("message", "the worker failed"))
    for choice in chunk.get("choices", []):
        output = {"token_ids": choice.get("token_ids") or [], "index": choice.get("index", 0)}
        if choice.get("finish_reason"):
            output["finish_reason"] = choice["finish_reason"]
        if output["token_ids"] or "finish_reason" in output:
            yield output


async def follow(worker: Worker) -> None:
    """Ends when the worker drains, or does not answer any more, or this process is to end."""
    failed = 0
    while not worker.gone.is_set() and failed < FAILED_CHECKS_MAX:
        try:
            if (await worker.info())["state"] != "ready":
                return
            failed = 0
        except httpx.HTTPStatusError as error:
            # While it drains it answers 503; a refused secret will stay refused.
            if error.response.status_code in (401, 403, 503):
                return
            failed += 1
        except httpx.HTTPError:
            failed += 1
        try:
            await asyncio.wait_for(worker.gone.wait(), CHECK_SECONDS)
        except asyncio.TimeoutError:
            pass


async def run(flags: argparse.Namespace) -> None:
    worker = Worker(flags.url, flags.model_name, read_secret(flags.cluster_secret_file))
    info = await worker.info()
    model = flags.model_name or info["models"][0]
    worker._model = model
    loop = asyncio.get_running_loop()
    runtime = DistributedRuntime(
        loop,
        os.environ.get("DYN_DISCOVERY_BACKEND", "etcd"),
        os.environ.get("DYN_REQUEST_PLANE", "tcp"),
        event_plane=os.environ.get("DYN_EVENT_PLANE", "zmq"),
    )
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, worker.gone.set)
    endpoint = runtime.endpoint(flags.endpoint)
    kv = info["kv"] or {"blockTokens": 16, "blocks": [0]}
    config = ModelRuntimeConfig()
    config.context_length = info["contextTokensMax"]
    config.total_kv_blocks = kv["blocks"][0]
    config.enable_local_indexer = flags.kv_events is not None
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat | ModelType.Completions,
        endpoint,
        flags.model_path,
        model,
        worker_type=WorkerType.Aggregated,
        kv_cache_block_size=kv["blockTokens"],
        runtime_config=config,
        ignore_weights=True,
    )
    publisher = None
    if flags.kv_events is not None:
        publisher = KvEventPublisher(
            endpoint,
            kv_block_size=kv["blockTokens"],
            zmq_endpoint=flags.kv_events,
            zmq_topic="",
            enable_local_indexer=True,
        )
    serving = asyncio.ensure_future(endpoint.serve_endpoint(worker.generate, graceful_shutdown=True))
    print(f"perigee-dynamo: {model} at {flags.url} is {flags.endpoint}", flush=True)
    await asyncio.wait(
        [serving, asyncio.ensure_future(follow(worker))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    if publisher is not None:
        publisher.shutdown()
    # Leaves discovery, then finishes what runs.
    runtime.shutdown()
    await serving


def read_secret(path: str | None) -> str | None:
    if path is None:
        return None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                return line.strip()
    sys.exit(f"Cannot use {path}: it must have a secret, current value is none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", required=True, help="the worker, e.g. http://127.0.0.1:8000")
    parser.add_argument("--model-path", required=True, help="folder with tokenizer and config")
    parser.add_argument("--model-name", help="default: the worker's first name")
    parser.add_argument("--endpoint", default="perigee.backend.generate", help="of Dynamo")
    parser.add_argument("--kv-events", help="the worker's publisher, e.g. tcp://127.0.0.1:5557")
    parser.add_argument("--cluster-secret-file", help="as the worker's")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
