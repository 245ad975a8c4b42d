/** Requests through two routers while everything fails, and what must hold of them. */
import { type MemoryReport, MemoryWatch } from "../hostile/memory-watch.ts";
import { FleetProcess } from "../support/fleet-process.ts";
import { booksLeft, type FleetCounts, restLeft } from "./chaos-books.ts";
import { FaultDice, type PartFaults } from "./chaos-faults.ts";
import { ChaosFleet } from "./chaos-fleet.ts";
import { HandleWatch } from "./chaos-handles.ts";
import { type Heard, listen, problemOf } from "./chaos-request.ts";
import {
  chaosRequests,
  type Dice,
  dice,
  type KnownRequest,
  knownRequests,
  pooledRequests,
} from "./chaos-traffic.ts";
import type { ChaosSizes } from "./chaos-workers.ts";
import type { Restartable } from "./restartable.ts";

export interface ChaosOptions extends ChaosSizes {
  readonly requests: number;
  readonly seed: number;
  /** Workers of pools are given other roles now and then. */
  readonly roleChanges: boolean;
  /** The run goes on for so long instead of for `requests`; null: it does not. */
  readonly minutes: number | null;
  /** Requests in work at a time. */
  readonly atOnce: number;
  /** Requests between two faults. */
  readonly requestsPerFault: number;
  readonly onProgress?: (line: string) => void;
}

export interface ChaosReport extends FleetCounts {
  readonly seed: number;
  /** Requests by what was heard. */
  readonly heard: Readonly<Record<string, number>>;
  /** By what the client is told, without numbers and names, and how many workers were well. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  /** Faults by the part that was hit, and behind how many it worked again. */
  readonly parts: Readonly<Record<string, PartFaults>>;
  /** Of the router and the workers that live through all, MiB. */
  readonly memory: Readonly<Record<string, MemoryReport>>;
  /** Descriptors and shared memory by process. */
  readonly handles: Readonly<Record<string, string>>;
  readonly slowestMs: number;
  readonly seconds: number;
  /** What must not be; none: all is well. */
  readonly problems: readonly string[];
}

/** All attempts at all deadlines of the routers, with a busy machine's delays. */
const DEADLINE_MS = 90_000;
const KINDS_OF_REQUESTS = 150;
const SLOW_MS = 150;
/** Longer than connections without requests are kept. */
const IDLE_MS = 100_000;
/** Parts of a run by time, as if they were requests. */
const TIMED_PARTS = 1000;
const MINUTE_MS = 60_000;
const PROBLEMS_MAX = 20;
/** Faults are begun at most this often. */
const FAULT_MS = 200;
const GROWTH_BYTES_MAX = 256 * 2 ** 20;
/** Blocks, and buffers of steps, that a worker touches for the first time. */
const WORKER_GROWTH_BYTES_MAX = 512 * 2 ** 20;
/** Blocks whose reader was killed before it read them are held for 60 s. */
const REST_MS = 90_000;
const SETTLE_MS = 180_000;
/** Of requests whose client stayed and whose router lived, so many are answered at least. */
export const ANSWERED_SHARE_MIN = 0.9;

/** A worker whose answers are right: it takes nothing from others, and drafts nothing. */
const LONE = ["worker", "--device", "cpu", "--dtype", "float32", "--speculative", "off"];

export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const problems = new Problems(options.onProgress);
  const nodes: Restartable[] = [];
  const fleet = await ChaosFleet.start({
    ...options,
    onLine: (who, line) => {
      const lost = nodes.some(({ name, isDisturbed }) => name === who && isDisturbed);
      if (isOrdinaryLine(line) || (lost && STAGE_LOST.test(line))) return;
      problems.add(`${who} says ${line}`);
    },
  });
  nodes.push(...fleet.nodes);
  try {
    return await new ChaosRun(fleet, options, problems).run();
  } finally {
    await fleet.close();
  }
}

class Problems {
  readonly all: string[] = [];
  readonly #told: ((line: string) => void) | undefined;

  constructor(told: ((line: string) => void) | undefined) {
    this.#told = told;
  }

  add(problem: string): void {
    if (this.all.length < PROBLEMS_MAX) this.#told?.(problem.slice(0, 600));
    if (this.all.length < PROBLEMS_MAX) this.all.push(problem.slice(0, 2000));
  }
}

class ChaosRun {
  readonly #fleet: ChaosFleet;
  readonly #options: ChaosOptions;
  readonly #problems: Problems;
  readonly #below: Dice;
  readonly #faults: FaultDice;
  readonly #heard: Record<string, number> = {};
  readonly #refusals: Record<string, number> = {};
  readonly #startedMs = performance.now();
  #begunMs = performance.now();
  #done = 0;
  #faultMs = 0;
  #slowestMs = 0;

  constructor(fleet: ChaosFleet, options: ChaosOptions, problems: Problems) {
    this.#fleet = fleet;
    this.#options = options;
    this.#problems = problems;
    this.#below = dice(options.seed);
    const { seed, roleChanges } = options;
    this.#faults = new FaultDice(fleet, { below: dice(seed + 1), roleChanges });
  }

  async run(): Promise<ChaosReport> {
    const known = await this.#known();
    await this.#calm(known);
    const handles = new HandleWatch(this.#fleet);
    const memories = this.#memories();
    await this.#ask(known, () => {
      for (const memory of memories.values()) memory.note(this.#part, this.#done);
    });
    await this.#faults.over();
    for (const failure of this.#faults.failures) this.#problems.add(failure);
    const counts = await this.#rest(known);
    await this.#settle([...memories.values()], known);
    for (const [name, memory] of memories) {
      for (const problem of memory.end(this.#done)) this.#problems.add(`${name}: ${problem}`);
    }
    for (const problem of await handles.left(IDLE_MS)) this.#problems.add(problem);
    this.#judgeShare();
    const memory = [...memories].map(([name, watch]) => [name, watch.report()] as const);
    return {
      ...{ seed: this.#options.seed, heard: this.#heard, refusals: this.#refusals },
      ...{ faults: this.#faults.counts, parts: this.#faults.parts },
      ...{ ...counts, handles: handles.report() },
      ...{ memory: Object.fromEntries(memory), slowestMs: Math.round(this.#slowestMs) },
      seconds: Math.round((performance.now() - this.#startedMs) / 1000),
      problems: this.#problems.all,
    };
  }

  /** Of those that live through all. */
  #memories(): Map<string, MemoryWatch> {
    const requests = this.#options.minutes === null ? this.#options.requests : TIMED_PARTS;
    const watch = ({ process }: Restartable, growthBytesMax: number) =>
      new MemoryWatch({
        server: { residentBytesEach: () => [process.residentBytes] },
        ...{ requests, growthBytesMax },
      });
    const memories = new Map<string, MemoryWatch>();
    const [router] = this.#fleet.routers;
    if (router !== undefined) memories.set(router.name, watch(router, GROWTH_BYTES_MAX));
    for (const { isLasting, kind, node } of this.#fleet.workers) {
      if (!isLasting) continue;
      memories.set(`${node.name} (${kind})`, watch(node, WORKER_GROWTH_BYTES_MAX));
    }
    return memories;
  }

  /** How far the run is, of its requests or of its time. */
  get #part(): number {
    const { minutes } = this.#options;
    if (minutes === null) return this.#done;
    return (TIMED_PARTS * (performance.now() - this.#begunMs)) / (minutes * MINUTE_MS);
  }

  /** Requests by so many clients at a time, until all are answered or the time is over. */
  async #ask(known: readonly KnownRequest[], onDone: () => void): Promise<void> {
    const { minutes, requests, atOnce } = this.#options;
    this.#begunMs = performance.now();
    let next = 0;
    const goesOn = () => (minutes === null ? next++ < requests : this.#part < TIMED_PARTS);
    const client = async () => {
      while (goesOn()) {
        await this.#askOne(pick(known, this.#below));
        onDone();
      }
    };
    await Promise.all(Array.from({ length: atOnce }, client));
  }

  /** Some requests before any fault, so that all connections are there. */
  async #calm(known: readonly KnownRequest[]): Promise<void> {
    for (const problem of await restLeft(this.#fleet, REST_MS)) this.#problems.add(problem);
    for (const { process } of this.#fleet.routers) {
      const some = known.slice(0, 2 * this.#options.atOnce);
      const options = { deadlineMs: DEADLINE_MS, leaveAfterMs: null };
      await Promise.all(
        some.map(async ({ request, right }) => {
          const problem = problemOf(await listen(process.url, request, options), right, false);
          if (problem !== null) {
            this.#problems.add(`undisturbed: ${problem}; asked ${JSON.stringify(request.body)}`);
          }
        }),
      );
    }
  }

  /** Requests with their right answers, from a worker that nothing disturbs. */
  async #known(): Promise<KnownRequest[]> {
    const { mocks, reals } = this.#options;
    const known: KnownRequest[] = [];
    const words = ["worker", "--mock", "--served-model-name", "mock", "--port", "0"];
    if (mocks > 0) {
      const calm = await FleetProcess.start([...words, "--speedup", "20"]);
      try {
        const requests = chaosRequests("mock", KINDS_OF_REQUESTS, this.#below);
        known.push(...(await knownRequests(calm.url, requests)));
      } finally {
        await calm.end("SIGKILL");
      }
    }
    const real = this.#fleet.workers[mocks];
    if (reals > 0 && real !== undefined) {
      const requests = chaosRequests("pocket", KINDS_OF_REQUESTS / 10, this.#below);
      known.push(...(await knownRequests(real.node.process.url, requests)));
    }
    if (this.#fleet.workers.some(({ role }) => role !== null)) {
      const alone = await FleetProcess.start([...LONE, "--port", "0"]);
      try {
        const { requests: count, minutes } = this.#options;
        const kinds = Math.min(KINDS_OF_REQUESTS, minutes === null ? count / 2 : count);
        const requests = pooledRequests("pocket", Math.ceil(kinds), this.#below);
        known.push(...(await knownRequests(alone.url, requests)));
      } finally {
        await alone.end("SIGKILL");
      }
    }
    return known;
  }

  async #askOne({ request, right }: KnownRequest): Promise<void> {
    this.#maybeFault();
    const router = this.#router();
    const { ends: ended } = router;
    const leaveAfterMs = this.#below(10) === 0 ? this.#below(600) : null;
    const startedMs = performance.now();
    const pauseMs = this.#below(8) === 0 ? this.#below(SLOW_MS) : 0;
    const options = { deadlineMs: DEADLINE_MS, leaveAfterMs, pauseMs };
    const heard = await listen(router.process.url, request, options);
    this.#slowestMs = Math.max(this.#slowestMs, performance.now() - startedMs);
    const problem = problemOf(heard, right, router.ends !== ended || router.isDisturbed);
    if (problem !== null) this.#problems.add(`${problem}; asked ${JSON.stringify(request.body)}`);
    this.#count(heard);
    if (heard.kind === "refused") {
      const well = this.#faults.wellCount(String(request.body.model));
      const ends = router.ends !== ended || router.isDisturbed ? ", its router ended" : "";
      const reason = `${heard.status} ${reasonOf(heard.text)} (${well} workers well${ends})`;
      this.#refusals[reason] = (this.#refusals[reason] ?? 0) + 1;
    }
    this.#done++;
    const { onProgress, requests, minutes } = this.#options;
    if (this.#done % Math.ceil((minutes === null ? requests : 4 * TIMED_PARTS) / 20) === 0) {
      onProgress?.(`${this.#done} requests: ${JSON.stringify(this.#heard)}`);
    }
  }

  /** The second router is used while it lives. */
  #router(): Restartable {
    const [first, second] = this.#fleet.routers;
    if (first === undefined || second === undefined) throw new Error("There are two routers");
    return this.#below(2) === 0 || second.isDisturbed ? first : second;
  }

  #maybeFault(): void {
    const nowMs = performance.now();
    if (this.#below(this.#options.requestsPerFault) > 0 || nowMs - this.#faultMs < FAULT_MS) return;
    this.#faultMs = nowMs;
    this.#faults.next();
  }

  #count(heard: Heard): void {
    const name = heard.kind === "refused" ? `refused ${heard.status}` : heard.kind;
    this.#heard[name] = (this.#heard[name] ?? 0) + 1;
  }

  /** All is well again: the fleet serves as before, and nothing is left of what was. */
  async #rest(known: readonly KnownRequest[]): Promise<FleetCounts> {
    for (const { name, process } of this.#fleet.nodes) {
      if (!process.isAlive) this.#problems.add(`${name} has ended: ${process.log.at(-1)}`);
    }
    for (const problem of await restLeft(this.#fleet, REST_MS)) this.#problems.add(problem);
    for (const { process } of this.#fleet.routers) {
      for (const { request, right } of known.slice(0, 10)) {
        const options = { deadlineMs: DEADLINE_MS, leaveAfterMs: null };
        const heard = await listen(process.url, request, options);
        const text = JSON.stringify(heard);
        if (heard.kind !== "answered") this.#problems.add(`at rest: ${text}`);
        else if (problemOf(heard, right, false) !== null) this.#problems.add(`wrong: ${text}`);
      }
    }
    const { problems, ...counts } = await booksLeft(this.#fleet, REST_MS);
    for (const problem of problems) this.#problems.add(problem);
    return counts;
  }

  /**
   * Undisturbed requests go on until what earlier ones left to the garbage collector is collected:
   * a process without requests collects nothing. What is kept does not go away so.
   */
  async #settle(memories: readonly MemoryWatch[], known: readonly KnownRequest[]): Promise<void> {
    const untilMs = performance.now() + SETTLE_MS;
    const goesOn = () =>
      performance.now() < untilMs && !memories.every((memory) => memory.isSettled(this.#done));
    const options = { deadlineMs: DEADLINE_MS, leaveAfterMs: null };
    const client = async () => {
      while (goesOn()) {
        const { request, right } = pick(known, this.#below);
        const { process } = this.#router();
        const problem = problemOf(await listen(process.url, request, options), right, false);
        if (problem !== null) this.#problems.add(`while memory settled: ${problem}`);
      }
    };
    await Promise.all(Array.from({ length: this.#options.atOnce }, client));
  }

  #judgeShare(): void {
    const { answered = 0, left = 0, cut = 0 } = this.#heard;
    const share = answered / Math.max(1, this.#done - left - cut);
    if (share < ANSWERED_SHARE_MIN) this.#problems.add(`only a share of ${share} was answered`);
  }
}

/** What a refusal says, alike for all workers. */
function reasonOf(text: string): string {
  const said = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text;
  const plain = said.replace(/http:\S+?:\d+/g, "URL").replace(/worker [\w.:/-]+/g, "worker W");
  return plain.replace(/\d+/g, "N").slice(0, 160);
}

function pick<Item>(items: readonly Item[], below: Dice): Item {
  const item = items[below(items.length)];
  if (item === undefined) throw new Error("There are some");
  return item;
}

/** The last words of a worker. */
const STAGE_LOST = /^perigee: Cannot continue: the engine failed: .*pipeline stage \d+ of \d+ /;
const CRASH =
  /unhandled|uncaught|\b(Type|Reference|Range|Syntax|Assertion)Error\b|MaxListeners|out of memory/i;

/** Lines are JSON, none of them tells of a bug. */
export function isOrdinaryLine(line: string): boolean {
  if (line === "") return true;
  if (CRASH.test(line)) return false;
  try {
    const { level } = JSON.parse(line);
    return typeof level === "number" && level < 60;
  } catch {
    return false;
  }
}
