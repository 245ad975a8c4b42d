/** Hostile cases against a server while ordinary streams run: what must hold, and what did not. */
import { sized } from "../support/full.ts";
import { checkAnswer, checkWire, type Verdict, wayDifference } from "./answer-check.ts";
import { bodyOf, endStalled, sendBody, sendBytes, sentAgain } from "./case-sender.ts";
import { type BodyCase, type HostileCase, reproduction, requestsOf } from "./hostile-case.ts";
import { GROWTH_BYTES_MAX, type MemoryReport, MemoryWatch } from "./memory-watch.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { ServedProcess } from "./served-process.ts";
import { warmUp } from "./warm-up.ts";

const CASES_AT_ONCE = 8;

/** Longer than an ordinary stream's longest pause when it is not disturbed. */
export const PAUSE_MS_MAX = 250;
/** How long streams run alone: pauses are told from theirs. */
const QUIET_MS = sized(1_000, 10_000);
const SETTLE_MS = 60_000;
/** Cases whose pauses are measured again; more would be a failure in any case. */
const SUSPECTS_MAX = 100;

export type Check =
  | "pause"
  | "alive"
  | "answer"
  | "ways"
  | "stream"
  | "blocks"
  | "memory"
  | "log"
  | "exit";

export interface Failure {
  readonly check: Check;
  /** The case, or those that ran when it happened. */
  readonly cases: readonly string[];
  readonly detail: string;
  readonly reproduction: string;
}

export interface RunReport {
  readonly requests: number;
  readonly cases: number;
  readonly failures: readonly Failure[];
  readonly ordinaryStreams: number;
  /** Bodies sent twice, because a kept connection was closed as they were sent. */
  readonly sentAgain: number;
  readonly codes: Readonly<Record<string, number>>;
  readonly memory: MemoryReport;
  readonly seconds: number;
  /** Null where pauses are not looked at. */
  readonly pauses: PauseReport | null;
}

/** Times between two tokens of an ordinary stream, in ms. */
export interface PauseReport {
  readonly undisturbedMs: number;
  /** The longest of all cases, each by its median. */
  readonly worstMs: number;
  readonly worstCase: string;
}

/** A case during which a stream paused. */
interface Suspect {
  readonly one: HostileCase;
  readonly pausesMs: number[];
}

export interface RunOptions {
  /** Folder whose `dist` is served. */
  readonly root: string;
  readonly cases: Iterable<HostileCase>;
  /** Ends when so many requests were made. */
  readonly requests: number;
  /** Ends at the first failure of these kinds: the rest of the run is not wanted. */
  readonly until?: readonly Check[];
  /** How often a pause is measured: the median counts. Default: 0, pauses are not looked at. */
  readonly pauseRuns?: number;
  /** Servers begun, one after the other, where one ends or hangs. Default: 1. */
  readonly serversMax?: number;
  /** Whether the server has had a busy day before, as memory and pauses want. Default: true. */
  readonly warm?: boolean;
  /** Most that the server's memory may grow by. Default: `GROWTH_BYTES_MAX`. */
  readonly growthBytesMax?: number;
}

/** Runs the cases in order, a few at a time. */
export async function runHostile(options: RunOptions): Promise<RunReport> {
  return new HostileRun(options).run();
}

class HostileRun {
  readonly #options: RunOptions;
  readonly #queue: Iterator<HostileCase>;
  readonly #failures: Failure[] = [];
  readonly #codes: Record<string, number> = {};
  readonly #inFlight = new Set<HostileCase>();
  #requests = 0;
  #cases = 0;
  #ordinaryStreams = 0;
  readonly #suspects: Suspect[] = [];
  #pauses: PauseReport | null = null;
  /** Of the newest server. */
  #memory: MemoryWatch | null = null;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#queue = options.cases[Symbol.iterator]();
  }

  async run(): Promise<RunReport> {
    const startMs = performance.now();
    const { requests, serversMax = 1 } = this.#options;
    for (let servers = 0; servers < serversMax; servers++) {
      const wasWhole = await this.#serve();
      if (wasWhole || this.#requests >= requests || this.#isFound()) break;
    }
    if (this.#memory === null) throw new Error("No server was begun");
    return {
      ...{ requests: this.#requests, cases: this.#cases, failures: this.#failures },
      ordinaryStreams: this.#ordinaryStreams,
      sentAgain,
      codes: this.#codes,
      pauses: this.#pauses,
      memory: this.#memory.report(),
      seconds: Math.round((performance.now() - startMs) / 100) / 10,
    };
  }

  /** Sends cases to one server, until they are over or it is. False: it ended, or hangs. */
  async #serve(): Promise<boolean> {
    const server = await ServedProcess.start(this.#options.root);
    let reading: OrdinaryStreams | null = null;
    try {
      if (this.#options.warm !== false) await warmUp(server.url);
      const streams = await OrdinaryStreams.start(server.url);
      reading = streams;
      const undisturbedMs = await undisturbed(streams);
      const { requests, growthBytesMax = GROWTH_BYTES_MAX } = this.#options;
      const memory = new MemoryWatch({ server, requests, growthBytesMax });
      this.#memory = memory;
      const life: Life = {
        ...{ server, streams, memory },
        undisturbedMs,
        firstRequest: this.#requests,
        problemsSeen: 0,
        over: false,
      };
      const watch = setInterval(() => this.#watch(life), 100);
      await this.#sendAll(life);
      if (!life.over && !this.#isFound()) await this.#measureAgain(life);
      clearInterval(watch);
      if (life.over || this.#isFound()) return false;
      await this.#settleMemory(life);
      await life.streams.stop();
      this.#ordinaryStreams += life.streams.read;
      this.#noteStreams(life, []);
      await this.#checkRest(life);
      return true;
    } finally {
      endStalled();
      reading?.kill();
      server.kill();
    }
  }

  /** Ends a life whose server has ended or hangs, with those as suspects that were in work. */
  #watch(life: Life): void {
    if (life.over) return;
    const { server, streams } = life;
    const ended = !server.alive;
    if (!ended && !streams.stalled) return;
    life.over = true;
    const what = ended ? "the process has ended" : "no stream is written a token any more";
    const log = server.log.slice(-5).join("\n");
    this.#fail("alive", life, [...this.#inFlight], `${what}: ${log}`);
    server.kill();
  }

  async #sendAll(life: Life): Promise<void> {
    const sender = async (): Promise<void> => {
      while (this.#requests < this.#options.requests && !this.#isOver(life)) {
        // All senders draw from one iterator.
        const next = this.#queue.next();
        if (next.done === true) return;
        this.#inFlight.add(next.value);
        const window = life.streams.openWindow();
        await this.#send(life, next.value);
        this.#notePause(life, next.value, await life.streams.closeWindow(window));
        this.#noteStreams(life, [...this.#inFlight]);
        this.#inFlight.delete(next.value);
        life.memory.note(this.#requests, this.#requests - life.firstRequest);
      }
    };
    await Promise.all(Array.from({ length: CASES_AT_ONCE }, sender));
  }

  /** Cases that streams paused at are sent again, one at a time: a machine pauses, too. */
  async #measureAgain(life: Life): Promise<void> {
    const { pauseRuns = 0 } = this.#options;
    const { streams, undisturbedMs } = life;
    let worst: PauseReport = { undisturbedMs, worstMs: undisturbedMs, worstCase: "none" };
    for (const { one, pausesMs } of this.#suspects.splice(0, SUSPECTS_MAX)) {
      while (pausesMs.length < pauseRuns && !life.over) {
        const window = streams.openWindow();
        await this.#send(life, one);
        pausesMs.push(await streams.closeWindow(window));
      }
      const worstMs = median(pausesMs);
      if (worstMs > worst.worstMs) worst = { ...worst, worstMs, worstCase: describeCase(one) };
      if (worstMs - undisturbedMs > PAUSE_MS_MAX) {
        this.#fail("pause", life, [one], `a stream paused ${pausesMs.map(Math.round)} ms`);
      }
    }
    if (pauseRuns > 0) this.#pauses = worst;
  }

  #notePause(life: Life, one: HostileCase, pauseMs: number): void {
    const isLong = pauseMs - life.undisturbedMs > PAUSE_MS_MAX;
    if (this.#options.pauseRuns !== undefined && isLong) {
      this.#suspects.push({ one, pausesMs: [pauseMs] });
    }
  }

  #isOver(life: Life): boolean {
    return life.over || this.#isFound();
  }

  #isFound(): boolean {
    const { until = [] } = this.#options;
    return this.#failures.some(({ check }) => until.includes(check));
  }

  async #send(life: Life, one: HostileCase): Promise<void> {
    this.#cases += 1;
    this.#requests += requestsOf(one);
    const { url } = life.server;
    const problems =
      one.kind === "wire"
        ? checkWire(one, await sendBytes(url, one))
        : await this.#sendWays(life, one);
    this.#watch(life);
    if (life.over) return;
    for (const detail of problems) this.#fail("answer", life, [one], detail);
  }

  async #sendWays(life: Life, one: BodyCase): Promise<readonly string[]> {
    const verdicts: Verdict[] = [];
    for (const way of one.ways) {
      const answer = await sendBody(life.server.url, one.path, bodyOf(one, way));
      const verdict = checkAnswer(one, way, answer);
      this.#codes[verdict.code] = (this.#codes[verdict.code] ?? 0) + 1;
      verdicts.push(verdict);
    }
    const [first, second] = verdicts;
    if (!life.over && first !== undefined && second !== undefined) {
      const difference = wayDifference(one, first, second);
      if (difference !== null) this.#fail("ways", life, [one], difference);
    }
    return verdicts.flatMap(({ problems }) => problems);
  }

  #noteStreams(life: Life, cases: readonly HostileCase[]): void {
    const { problems } = life.streams;
    if (life.over || !life.server.alive) return;
    for (const message of problems.slice(life.problemsSeen)) {
      this.#fail("stream", life, cases, message);
    }
    life.problemsSeen = problems.length;
  }

  /** What must hold when all is over. */
  async #checkRest(life: Life): Promise<void> {
    const { server } = life;
    const left = await server.settled();
    if (left === null) {
      this.#fail("alive", life, [], `the process has ended: ${server.log.slice(-5).join("\n")}`);
      return;
    }
    if (left.requests + left.heldBlocks !== 0) {
      const { requests, heldBlocks } = left;
      this.#fail("blocks", life, [], `${heldBlocks} blocks held, ${requests} requests in work`);
    }
    for (const problem of life.memory.end(this.#requests - life.firstRequest)) {
      this.#fail("memory", life, [], problem);
    }
    const code = await server.stop();
    if (code !== 0) this.#fail("exit", life, [], `SIGTERM ended the server with ${code}`);
    for (const line of server.log) {
      if (!isLogLine(line)) this.#fail("log", life, [], `a line of the log is not ours: ${line}`);
    }
  }

  /** What the last cases left is collected while ordinary streams go on: it has a minute. */
  async #settleMemory({ memory, firstRequest }: Life): Promise<void> {
    const deadlineMs = performance.now() + SETTLE_MS;
    while (performance.now() < deadlineMs && !memory.isSettled(this.#requests - firstRequest)) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  #fail(check: Check, { server }: Life, cases: readonly HostileCase[], detail: string): void {
    const names = cases.map((one) => describeCase(one));
    const shown = cases.map((one) => reproduction(one, server.url)).join("\n");
    this.#failures.push({ check, cases: names, detail, reproduction: shown });
  }
}

/** One server and the streams beside the cases. */
interface Life {
  readonly server: ServedProcess;
  readonly streams: OrdinaryStreams;
  readonly memory: MemoryWatch;
  /** Their longest pause before the first case. */
  readonly undisturbedMs: number;
  /** Requests made before this server was begun. */
  readonly firstRequest: number;
  problemsSeen: number;
  over: boolean;
}

/** The streams' longest pause while nothing else is there; memory is as it is with them alone. */
async function undisturbed(streams: OrdinaryStreams): Promise<number> {
  const window = streams.openWindow();
  await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  return streams.closeWindow(window);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function describeCase(one: HostileCase): string {
  return one.kind === "wire" ? `${one.name} (bytes)` : `${one.name} ${one.path} ${one.fields}`;
}

/** Lines are JSON or begin with our name: nothing that a client sent makes a line of its own. */
function isLogLine(line: string): boolean {
  if (line === "" || line.startsWith("perigee: ")) return true;
  try {
    return typeof JSON.parse(line) === "object";
  } catch {
    return false;
  }
}
