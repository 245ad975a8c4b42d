import OpenAI from "openai";
import { afterEach } from "vitest";
import { type RunningServer, type ServerOptions, startServer } from "#server";
import { ToyModel, type ToyOptions } from "./toy-model.ts";

/** A toy model being served on a free port, and the official client for it. */
export interface ToyServer {
  readonly model: ToyModel;
  readonly server: RunningServer;
  readonly client: OpenAI;
  get(path: string, init?: RequestInit): Promise<Response>;
  /** POSTs JSON. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

const started: RunningServer[] = [];

/** Starts one; call `closeToyServers` after each test. */
export async function serveToy(
  toy: ToyOptions = {},
  options: ServerOptions = {},
): Promise<ToyServer> {
  const model = new ToyModel(toy);
  const server = await startServer(model, {
    port: 0,
    logLevel: "silent",
    shutdownTimeoutMs: 0,
    ...options,
  });
  started.push(server);
  const { url } = server;
  const apiKey = options.apiKey?.[0] ?? "none";
  return {
    model,
    server,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }),
    get: (path, init) => fetch(url + path, init),
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
  };
}

/** Closes all that were started; registers itself for after each test of the importing file. */
export function closeToyServers(): void {
  afterEach(async () => {
    await Promise.all(started.splice(0).map((server) => server.close()));
  });
}
