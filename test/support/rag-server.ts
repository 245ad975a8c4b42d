/** A server with files and vector stores in a fresh folder, and the official client for it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach } from "vitest";
import type { ServedModel } from "#engine";
import {
  type Embedder,
  openStore,
  RagExtension,
  type RagExtensionParts,
  type VectorStore,
} from "#rag";
import { type RunningServer, type ServerOptions, startServer } from "#server";
import { ToyModel } from "./toy-model.ts";
import { WordEmbedder } from "./word-embedder.ts";

/** What a test says of its server; the rest has defaults. */
export interface RagServerOptions {
  /** Of an earlier server: it goes on with what is there. */
  readonly folder?: string;
  readonly llm?: ServedModel;
  readonly embedder?: Embedder;
  readonly store?: (store: VectorStore) => VectorStore;
  readonly parts?: Partial<Pick<RagExtensionParts, "limits" | "ingest" | "nowSeconds">>;
  readonly server?: ServerOptions;
}

/** A running one. */
export interface RagServer {
  readonly url: string;
  readonly client: OpenAI;
  readonly folder: string;
  readonly extension: RagExtension;
  readonly warnings: string[];
  /** POSTs JSON. */
  post(path: string, body: unknown): Promise<Response>;
  /** Ends it; the folder stays until the test is over. */
  close(): Promise<void>;
}

const running = new Set<() => Promise<void>>();
const folders: string[] = [];

/** Starts one; `closeRagServers` ends it. */
export async function serveRag(options: RagServerOptions = {}): Promise<RagServer> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "perigee-rag-http-"));
  if (options.folder === undefined) folders.push(folder);
  const llm = options.llm ?? new ToyModel();
  const own = await openStore(folder);
  const store = options.store?.(own) ?? own;
  const embedder = options.embedder ?? new WordEmbedder();
  const warnings: string[] = [];
  const extension = await RagExtension.open({
    ...{ store, embedder, llm, folder: join(folder, "openai"), ...options.parts },
    warn: (message) => warnings.push(message),
  });
  const server = await startServer(
    llm,
    { port: 0, logLevel: "silent", shutdownTimeoutMs: 0, ...options.server },
    { extension },
  );
  const close = async () => {
    if (!running.delete(close)) return;
    await server.close();
    await extension.close();
    await own.close();
  };
  running.add(close);
  return { ...doorOf(server, options), folder, extension, warnings, close };
}

function doorOf({ url }: RunningServer, { server }: RagServerOptions) {
  const apiKey = server?.apiKey?.[0] ?? "none";
  const headers = { "content-type": "application/json", authorization: `Bearer ${apiKey}` };
  return {
    url,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }),
    post: (path: string, body: unknown) =>
      fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) }),
  };
}

/** Ends all that were started, after each test of the importing file. */
export function closeRagServers(): void {
  afterEach(async () => {
    for (const close of running) await close();
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });
}

/** A text as a file for the client. */
export function textFile(name: string, text: string): File {
  return new File([text], name);
}
