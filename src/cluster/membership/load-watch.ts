import { systemHttp, type WorkerHttp } from "#cluster/http";
import type { Member, Membership, WorkerInfo, WorkerLoad } from "#cluster/protocol";
import { ReportStream } from "./report-stream.ts";
import type { ReportedWorker } from "./worker-info-reader.ts";

const INTERVAL_MS = 1000;

/** How the loads of a fleet are followed. */
export interface LoadWatchOptions {
  /** The fleet's secret. */
  readonly secret: string | null;
  /** What asks workers. Default: one with the system's authorities. */
  readonly http?: WorkerHttp;
  /** Between two looks at a worker, which tells of itself once a second. Default: 1 s. */
  readonly intervalMs?: number;
  readonly onLoad: (info: WorkerInfo, load: WorkerLoad) => void;
}

/**
 * Follows what every worker of Perigee that is a member says of its load, and learns its role and
 * state by the way, so that a membership need not ask the same. A worker whose answer ends, fails
 * or falls silent is asked anew at the next look: others' loads are not late for it.
 */
export class LoadWatch {
  readonly #membership: Membership;
  readonly #options: Required<LoadWatchOptions>;
  /** By the worker's id. */
  readonly #streams = new Map<string, ReportStream>();
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  constructor(membership: Membership, options: LoadWatchOptions) {
    const { intervalMs = INTERVAL_MS, http = systemHttp() } = options;
    this.#membership = membership;
    this.#options = { ...options, intervalMs, http };
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      // Behind the next reads: what came while the process was busy is no delay of its worker.
      setImmediate(() => this.#lookAtAll(nowMs));
    }, intervalMs);
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const stream of this.#streams.values()) stream.close();
    this.#streams.clear();
  }

  #lookAtAll(nowMs: number): void {
    if (this.#isClosed) return;
    const { workers } = this.#membership;
    for (const [id, stream] of this.#streams) {
      const member = workers.get(id);
      // A worker that was started anew may be at another address while its old process drains.
      if (isAsked(member) && member?.info.url === stream.url) stream.look(nowMs);
      else stream.close();
      if (stream.isOver) this.#streams.delete(id);
    }
    for (const member of workers.values()) {
      if (isAsked(member) && !this.#streams.has(member.info.id)) this.#follow(member.info);
    }
  }

  #follow({ id, url }: WorkerInfo): void {
    const { secret, http, intervalMs } = this.#options;
    const onReport = (report: ReportedWorker) => this.#heard(id, report);
    this.#streams.set(id, new ReportStream({ url, secret, http, intervalMs, onReport }));
  }

  #heard(id: string, { info: told, state, load }: ReportedWorker): void {
    const info = this.#membership.workers.get(id)?.info;
    if (info === undefined || told.epoch !== info.epoch) return;
    this.#membership.heard?.({ info: told, state });
    const { role, roleEpoch } = told;
    if (role !== undefined && roleEpoch !== undefined) {
      this.#membership.learnRole(id, { epoch: info.epoch, role, roleEpoch });
    }
    if (load !== null) this.#options.onLoad(info, load);
  }
}

/** Membership notices workers that are away, and says so. */
function isAsked(member: Member | undefined): boolean {
  return member?.info.kind === "perigee" && member.state !== "unreachable";
}
