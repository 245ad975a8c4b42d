/** What Ollama's clients ask before they use a server, of a fleet. */
import type { FastifyInstance } from "fastify";
import { EngineError, isPlainObject } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import { computes } from "#cluster/routing";
import { OLLAMA, OLLAMA_VERSION, refuseToManage } from "#server";
import { askWorker } from "./ask-worker.ts";
import type { RouterContext } from "./context.ts";

/** Workers that are asked at once: one for each name that the others do not have. */
const ASKED_MAX = 64;
/** What workers said is said again for so long, however many clients ask. */
const FRESH_MS = 1000;

/** Registers them; what a worker answers alone is relayed. */
export function ollamaRoutes(app: FastifyInstance, context: RouterContext): void {
  const config = { dialect: OLLAMA };
  const version = { version: OLLAMA_VERSION, perigee: context.version };
  app.get("/api/version", { config }, async () => version);
  for (const path of ["/api/tags", "/api/ps"] as const) {
    const models = keptFor(FRESH_MS, () => modelsOf(context, path));
    app.get(path, { config }, async () => ({ models: await models() }));
  }
  refuseToManage(app, "the workers have the models that they were started with");
}

/** Asks once at a time, and again when the answer is so old. */
function keptFor<Value>(freshMs: number, ask: () => Promise<Value>): () => Promise<Value> {
  let kept: { readonly value: Promise<Value>; untilMs: number } | null = null;
  return () => {
    if (kept !== null && performance.now() < kept.untilMs) return kept.value;
    const asked = { value: ask(), untilMs: Number.POSITIVE_INFINITY };
    kept = asked;
    asked.value.then(
      () => {
        asked.untilMs = performance.now() + freshMs;
      },
      () => {
        asked.untilMs = 0;
      },
    );
    return asked.value;
  };
}

/** Cards of all models, each as a worker describes it. Throws NOT_READY, WORKER_FAILED. */
async function modelsOf(context: RouterContext, path: string): Promise<readonly object[]> {
  const ready = readyWorkers(context);
  if (ready.length === 0) {
    throw new EngineError(
      "NOT_READY",
      "Cannot list models: a worker of perigee must be ready, current value is none; try again " +
        "later",
    );
  }
  const cards = new Map<string, object>();
  let asked = workersOfAll(ready);
  const failed = new Set<string>();
  // Another worker is asked for what one that failed would have said.
  while (asked.length > 0) {
    const answers = await Promise.all(asked.map((info) => cardsOf(context, path, info)));
    answers.forEach((found, place) => {
      if (found === null) failed.add(asked[place]?.id ?? "");
      for (const [name, card] of found ?? []) if (!cards.has(name)) cards.set(name, card);
    });
    const left = ready.filter(({ id, models }) => !failed.has(id) && !hasAll(cards, models));
    asked = answers.includes(null) ? workersOfAll(left) : [];
  }
  if (cards.size > 0) return [...cards.values()];
  throw new EngineError(
    "WORKER_FAILED",
    "Cannot list models: a worker must say which it has, none does; try again later",
  );
}

function readyWorkers({ membership }: RouterContext): WorkerInfo[] {
  return [...membership.workers.values()]
    .filter(({ info, state }) => state === "ready" && info.kind === "perigee" && computes(info))
    .map(({ info }) => info);
}

/** As few as have all names together, in their order. */
function workersOfAll(workers: readonly WorkerInfo[]): WorkerInfo[] {
  const names = new Set<string>();
  const chosen = workers.filter(({ models }) => {
    const isNew = models.some((name) => !names.has(name));
    for (const name of models) names.add(name);
    return isNew;
  });
  return chosen.slice(0, ASKED_MAX);
}

function hasAll(cards: ReadonlyMap<string, object>, names: readonly string[]): boolean {
  return names.every((name) => cards.has(name));
}

/** By name; null: the worker does not say. */
async function cardsOf(
  { links, config }: RouterContext,
  path: string,
  info: WorkerInfo,
): Promise<ReadonlyMap<string, object> | null> {
  const link = links.find(info.id);
  if (link === null) return null;
  const timeoutMs = config.connectTimeoutMs * 2;
  const question = { method: "GET", path, body: null, timeoutMs } as const;
  const answer = await askWorker(link, question).catch(() => null);
  if (answer?.status !== 200) return null;
  try {
    return namedCards(JSON.parse(answer.text));
  } catch {
    return null; // no JSON: another one is asked
  }
}

function namedCards(value: unknown): ReadonlyMap<string, object> | null {
  if (!isPlainObject(value) || !Array.isArray(value.models)) return null;
  const named = value.models.flatMap((card: unknown) =>
    isPlainObject(card) && typeof card.name === "string" ? [[card.name, card] as const] : [],
  );
  return new Map(named);
}
