/** Servers of other engines, as far as a router asks them what they are. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

/** By path: a status, or JSON, or text as it stands. */
export type Answers = Readonly<Record<string, number | string | object>>;

export interface ForeignServer {
  readonly url: string;
  /** Paths that were asked for, in order, with the token of each. */
  readonly asked: readonly (readonly [path: string, token: string | null])[];
  /** What it answers from now on. */
  answer(answers: Answers): void;
  close(): Promise<void>;
}

/** Starts one; a given port lets it start anew where it was. */
export async function serveForeign(first: Answers, port = 0): Promise<ForeignServer> {
  let answers = first;
  const asked: [string, string | null][] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? "";
    asked.push([path, request.headers.authorization?.replace("Bearer ", "") ?? null]);
    const answer = answers[path] ?? 404;
    response.statusCode = typeof answer === "number" ? answer : 200;
    if (typeof answer === "string") response.end(answer);
    else response.end(typeof answer === "number" ? "" : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("It listens at a port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    asked,
    answer: (next) => {
      answers = next;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const models = (owner: string, id: string) => ({
  "/v1/models": { object: "list", data: [{ id, owned_by: owner, max_model_len: 32768 }] },
});

/** What each engine answers. */
export const FOREIGN = {
  vllm: {
    ...models("vllm", "org/model"),
    "/version": { version: "0.26.0" },
    "/health": 200,
    "/metrics":
      "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n" +
      'vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="27283"} 1.0\n',
  },
  sglang: {
    ...models("sglang", "org/model"),
    "/health": 200,
    "/get_server_info": { version: "0.5.9", page_size: 64, max_total_num_tokens: 640_000 },
  },
  "tensorrt-llm": {
    ...models("tensorrt_llm", "org/model"),
    "/version": { version: "1.2.0" },
    "/server_info": { tokens_per_block: 32, kv_cache_hash_algo: "v1_block_key" },
    "/health": 200,
  },
  openai: { ...models("somebody", "org/model") },
} satisfies Readonly<Record<string, Answers>>;
