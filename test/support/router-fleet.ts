import OpenAI from "openai";
import { afterEach } from "vitest";
import { type RouterOptions, type RouterSecrets, type RunningRouter, startRouter } from "#cluster";
import type { ToyOptions } from "./toy-model.ts";
import { serveToy, type ToyServer } from "./toy-server.ts";

/** Toy workers behind a router, and the official client for it. */
export interface RouterFleet {
  readonly workers: readonly ToyServer[];
  readonly router: RunningRouter;
  readonly client: OpenAI;
  get(path: string, init?: RequestInit): Promise<Response>;
  /** POSTs JSON. */
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
}

const started: RunningRouter[] = [];

/** One worker for each of `toys`. Close with `closeRouters`. */
export async function routeToys(
  toys: readonly ToyOptions[],
  options: RouterOptions = {},
  secrets: RouterSecrets = {},
): Promise<RouterFleet> {
  const workers = await Promise.all(toys.map((toy) => serveToy(toy)));
  const urls = workers.map(({ server }) => server.url);
  const router = await routeTo(urls, options, secrets);
  return { workers, router, ...clientsOf(router) };
}

/** A router before servers of whatever kind. */
export async function routeTo(
  urls: readonly string[],
  options: RouterOptions = {},
  secrets: RouterSecrets = {},
): Promise<RunningRouter> {
  const router = await startRouter(
    { port: 0, logLevel: "silent", shutdownTimeoutMs: 0, worker: [...urls], ...options },
    secrets,
  );
  started.push(router);
  return router;
}

export function clientsOf({ url }: RunningRouter): Pick<RouterFleet, "client" | "get" | "post"> {
  return {
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }),
    get: (path, init) => fetch(url + path, init),
    post: (path, body, init = {}) =>
      fetch(url + path, {
        method: "POST",
        body: JSON.stringify(body),
        ...init,
        headers: { "content-type": "application/json", ...init.headers },
      }),
  };
}

/** Closes all that were started; registers itself for after each test of the importing file. */
export function closeRouters(): void {
  afterEach(async () => {
    await Promise.all(started.splice(0).map((router) => router.close()));
  });
}
