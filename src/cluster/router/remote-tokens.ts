/** Prompts that a worker of another engine tokenizes for the router, so that its cache is found. */
import { createHash } from "node:crypto";
import type { Clock } from "#base";
import { askWorker } from "./ask-worker.ts";
import type { GenerationRequest } from "./generation-request.ts";
import {
  questionOf,
  type TokenizeQuestion,
  type TokenizeRoute,
  tokenizeRoutes,
} from "./tokenize-routes.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A request waits this long for its tokens; then its text stands for them. */
const TIMEOUT_MS = 2000;
/** Ids that are remembered, of all prompts together. */
const TOKENS_MAX = 4 * 2 ** 20;
/** Questions at a time: further prompts are looked up by their text. */
const ASKED_MAX = 64;
/** A route that answered nothing useful this often, and never anything else, is left alone. */
const TRIES = 3;
const REST_MS = 60_000;
/** A worker that is silent is left alone, twice as long each time. */
const SILENCE_MS = 5000;

/** What is known of a route of one start of a worker, for one kind of prompt. */
interface RouteState {
  works: boolean;
  failures: number;
  /** Left alone until then. */
  untilMs: number;
}

/** What is known of one start of a worker. */
interface AskedWorker {
  readonly routes: Map<string, RouteState>;
  /** Questions in a row without an answer. */
  silences: number;
  untilMs: number;
}

export class RemoteTokens {
  readonly #clock: Clock;
  /** By the prompt's hash; the least recently used first. */
  readonly #known = new Map<string, Uint32Array>();
  readonly #asked = new Map<string, Promise<Uint32Array | null>>();
  readonly #workers = new WeakMap<WorkerLink, AskedWorker>();
  #tokens = 0;
  /** Prompts that were asked for, found here, without an answer, and too many at a time. */
  readonly counts = { asked: 0, remembered: 0, failed: 0, refused: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the worker may be worth asking for a prompt of this kind. */
  mayAsk(link: WorkerLink, request: GenerationRequest): boolean {
    const question = { kind: request.kind === "chat" ? "chat" : "completions", body: "" } as const;
    return this.#openRoutes(link, question).length > 0;
  }

  /** Null: the worker does not say. Never rejects. */
  async tokensOf(request: GenerationRequest, link: WorkerLink): Promise<Uint32Array | null> {
    const question = questionOf(request);
    if (question === null) return null;
    const key = createHash("sha256").update(question.body).digest("base64");
    const found = this.#known.get(key);
    if (found !== undefined) {
      this.counts.remembered++;
      this.#known.delete(key);
      this.#known.set(key, found);
      return found;
    }
    const asked = this.#asked.get(key);
    if (asked !== undefined) return asked;
    if (this.#asked.size >= ASKED_MAX) {
      this.counts.refused++;
      return null;
    }
    const answer = this.#ask(link, question);
    this.#asked.set(key, answer);
    const tokens = await answer;
    this.#asked.delete(key);
    if (tokens === null) this.counts.failed++;
    else this.#remember(key, tokens);
    return tokens;
  }

  async #ask(link: WorkerLink, question: TokenizeQuestion): Promise<Uint32Array | null> {
    this.counts.asked++;
    const untilMs = this.#clock.nowMs() + TIMEOUT_MS;
    const worker = this.#workerOf(link);
    for (const route of this.#openRoutes(link, question)) {
      const timeoutMs = Math.max(untilMs - this.#clock.nowMs(), 1);
      const state = stateOf(worker, question, route);
      const tokens = await askRoute(link, { route, body: question.body, timeoutMs });
      if (tokens === "silent") {
        const restMs = Math.min(SILENCE_MS * 2 ** worker.silences++, REST_MS);
        worker.untilMs = this.#clock.nowMs() + restMs;
        return null;
      }
      worker.silences = 0;
      if (tokens === "absent") state.untilMs = Number.POSITIVE_INFINITY;
      else if (tokens === null) this.#failed(state);
      else {
        state.works = true;
        state.failures = 0;
        return tokens;
      }
    }
    return null;
  }

  /** One that has worked refuses this prompt, or is slow just now. */
  #failed(state: RouteState): void {
    state.failures++;
    if (state.failures % TRIES !== 0) return;
    state.untilMs = this.#clock.nowMs() + (state.works ? TIMEOUT_MS : REST_MS);
  }

  #openRoutes(link: WorkerLink, question: TokenizeQuestion): readonly TokenizeRoute[] {
    const routes = tokenizeRoutes(link.info, question);
    if (routes.length === 0) return routes;
    const nowMs = this.#clock.nowMs();
    const worker = this.#workerOf(link);
    if (worker.untilMs > nowMs) return [];
    return routes.filter((route) => stateOf(worker, question, route).untilMs <= nowMs);
  }

  #workerOf(link: WorkerLink): AskedWorker {
    const known = this.#workers.get(link);
    if (known !== undefined) return known;
    const untilMs = Number.NEGATIVE_INFINITY;
    const worker: AskedWorker = { routes: new Map(), silences: 0, untilMs };
    this.#workers.set(link, worker);
    return worker;
  }

  #remember(key: string, tokens: Uint32Array): void {
    if (tokens.length > TOKENS_MAX / 4 || this.#known.has(key)) return;
    this.#known.set(key, tokens);
    this.#tokens += tokens.length;
    for (const [oldest, { length }] of this.#known) {
      if (this.#tokens <= TOKENS_MAX) break;
      this.#known.delete(oldest);
      this.#tokens -= length;
    }
  }
}

interface RouteQuestion {
  readonly route: TokenizeRoute;
  readonly body: string;
  readonly timeoutMs: number;
}

/** `absent`: the server has no such route. Null: it says nothing of this prompt. */
async function askRoute(
  link: WorkerLink,
  { route, body, timeoutMs }: RouteQuestion,
): Promise<Uint32Array | "absent" | "silent" | null> {
  const question = { method: "POST", path: route.path, body, timeoutMs } as const;
  const answer = await askWorker(link, question).catch(() => null);
  if (answer === null) return "silent";
  if (ABSENT.has(answer.status)) return "absent";
  if (answer.status !== 200) return null;
  try {
    return route.read(JSON.parse(answer.text));
  } catch {
    return null; // no JSON: the text stands for the prompt
  }
}

const ABSENT: ReadonlySet<number> = new Set([404, 405, 501]);

function stateOf(
  { routes }: AskedWorker,
  { kind }: TokenizeQuestion,
  { path }: TokenizeRoute,
): RouteState {
  const name = `${kind} ${path}`;
  const known = routes.get(name);
  if (known !== undefined) return known;
  const state: RouteState = { works: false, failures: 0, untilMs: Number.NEGATIVE_INFINITY };
  routes.set(name, state);
  return state;
}
