"""Dynamo's HTTP frontend with its KV router, as its own package starts it."""

import asyncio
import os
import sys

from dynamo.llm import (
    EngineType,
    EntrypointArgs,
    KvRouterConfig,
    RouterConfig,
    RouterMode,
    make_engine,
    run_input,
)
from dynamo.runtime import DistributedRuntime


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    runtime = DistributedRuntime(
        loop, os.environ["DYN_DISCOVERY_BACKEND"], "tcp", event_plane="zmq"
    )
    router = RouterConfig(RouterMode.KV, KvRouterConfig())
    args = EntrypointArgs(
        EngineType.Dynamic,
        http_host="127.0.0.1",
        http_port=port,
        router_config=router,
        # A worker that drains refuses what it was sent before: another one gets it.
        migration_limit=3,
    )
    await run_input(runtime, "http", await make_engine(runtime, args))


asyncio.run(main(int(sys.argv[1])))
