import type { WorkerHttp } from "#cluster/http";
import type { Membership, WorkerInfo, WorkerLoad } from "#cluster/protocol";
import { readReport } from "./probe.ts";

const INTERVAL_MS = 1000;

/** How the loads of a fleet are followed. */
export interface LoadWatchOptions {
  /** The fleet's secret. */
  readonly secret: string | null;
  /** What asks workers. Default: one with the system's authorities. */
  readonly http?: WorkerHttp;
  /** Between two questions to a worker. Default: 1 s. */
  readonly intervalMs?: number;
  readonly onLoad: (info: WorkerInfo, load: WorkerLoad) => void;
}

/**
 * Asks every worker of Perigee that is a member for its load, and learns its role and state by the
 * way, so that a membership need not ask the same. A worker that does not answer is not asked again
 * before the question has failed: others' loads are not late for it.
 */
export class LoadWatch {
  readonly #membership: Membership;
  readonly #options: LoadWatchOptions;
  readonly #asked = new Set<string>();
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(membership: Membership, options: LoadWatchOptions) {
    this.#membership = membership;
    this.#options = options;
    this.#timer = setInterval(() => this.#askAll(), options.intervalMs ?? INTERVAL_MS);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }

  #askAll(): void {
    for (const { info, state } of this.#membership.workers.values()) {
      if (info.kind !== "perigee" || state === "unreachable" || this.#asked.has(info.id)) continue;
      void this.#ask(info);
    }
  }

  async #ask(info: WorkerInfo): Promise<void> {
    const { secret, onLoad, http } = this.#options;
    const { signal } = this.#stop;
    this.#asked.add(info.id);
    try {
      const report = await readReport({
        ...{ url: info.url, secret, workerApiKey: null, signal },
        ...(http !== undefined && { http }),
      });
      if (report?.info.epoch !== info.epoch || signal.aborted) return;
      this.#membership.heard?.({ info: report.info, state: report.state });
      const { role, roleEpoch } = report.info;
      if (role !== undefined && roleEpoch !== undefined) {
        this.#membership.learnRole(info.id, { epoch: info.epoch, role, roleEpoch });
      }
      if (report.load !== null) onLoad(info, report.load);
    } catch {
      // Membership notices workers that are away, and says so.
    } finally {
      this.#asked.delete(info.id);
    }
  }
}
