/** KV events of all workers, merged: each with the worker that it is of. */
import type { FastifyInstance } from "fastify";
import { EngineError } from "#base";
import { askWorker } from "./ask-worker.ts";
import { ClientStream } from "./client-stream.ts";
import type { RouterContext } from "./context.ts";
import type { UpstreamCall } from "./upstream.ts";
import type { WorkerLink } from "./worker-link.ts";

const TIMEOUT_MS = 5000;
const STREAMS_MAX = 16;
const LINE_BYTES_MAX = 2 ** 20;

export function kvEventRoutes(app: FastifyInstance, context: RouterContext): void {
  let streams = 0;
  app.post("/kv_cache_events", async (_request, reply) => {
    const parts = await Promise.all(perigees(context).map((link) => polled(link)));
    // Text, because hashes of 64 bits do not survive JSON.parse.
    return reply.type("application/json; charset=utf-8").send(`[${parts.join(",")}]`);
  });
  app.get("/kv_cache_events/stream", async (request, reply) => {
    if (streams >= STREAMS_MAX) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot follow KV events: at most ${STREAMS_MAX} clients may; try again later`,
      );
    }
    streams++;
    reply.hijack();
    const client = new ClientStream(reply.raw);
    client.begin(reply.getHeaders());
    const calls = perigees(context).map((link) => followed(link, client));
    await new Promise<void>((resolve) => {
      reply.raw.once("close", resolve);
      request.raw.socket.once("close", () => resolve());
      if (client.closed) resolve();
    });
    streams--;
    for (const call of calls) call.abort(HUNG_UP);
    return reply;
  });
}

const HUNG_UP = new EngineError("ABORTED", "Cannot follow KV events: the client is gone");

function perigees({ links }: RouterContext): WorkerLink[] {
  return [...links.all].filter(({ info }) => info.kind === "perigee");
}

async function polled(link: WorkerLink): Promise<string> {
  const worker = JSON.stringify(link.info.id);
  try {
    const { status, text } = await askWorker(link, {
      ...{ method: "POST", path: "/kv_cache_events", body: "{}", timeoutMs: TIMEOUT_MS },
    });
    return `{"worker":${worker},"events":${status === 200 ? text : "null"}}`;
  } catch {
    return `{"worker":${worker},"events":null}`;
  }
}

/** Lines of data get their worker; numbers of events, which are a worker's own, are left out. */
function followed(link: WorkerLink, client: ClientStream): UpstreamCall {
  const worker = JSON.stringify(link.info.id);
  let held = "";
  const request = { method: "GET", path: "/kv_cache_events/stream", body: null } as const;
  const call = link.upstream.send(
    { ...request, headers: { ...link.headers, accept: "text/event-stream" } },
    {
      onHead: (status) => {
        if (status !== 200) call.abort(HUNG_UP);
      },
      onData: (bytes) => {
        const lines = (held + bytes.toString("latin1")).split("\n");
        held = lines.pop() ?? "";
        if (held.length > LINE_BYTES_MAX) call.abort(HUNG_UP);
        const text = lines.flatMap((line) => tagged(line, worker)).join("");
        const room = client.write(text, performance.now(), true);
        if (room) return;
        call.pause();
        client.onRoom(() => call.resume());
      },
      onEnd: () => {},
      onFailure: () => {},
    },
  );
  return call;
}

function tagged(line: string, worker: string): string[] {
  if (line.startsWith("data: ")) {
    return [`data: {"worker":${worker},"event":${line.slice("data: ".length)}}\n\n`];
  }
  return line.startsWith("event: ") ? [`${line}\n`] : [];
}
