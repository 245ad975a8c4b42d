import { setTimeout as sleep } from "node:timers/promises";
import type { FleetProcess } from "../support/fleet-process.ts";
import { isAlive } from "../support/process-alive.ts";
import { allStagesOf } from "../support/stage-processes.ts";

/** A process that must end, or a stage that ends behind it, has so long on a busy machine. */
const END_MS = 20_000;
const LOOK_MS = 50;

export interface RestartableParts extends Pick<Restartable, "name" | "hasStages"> {
  readonly start: () => Promise<FleetProcess>;
}

/** A worker or router, started again where it was. */
export class Restartable {
  readonly name: string;
  /** Whether it starts further processes, its stages. */
  readonly hasStages: boolean;
  readonly #start: () => Promise<FleetProcess>;
  #process: FleetProcess;
  /** Whether it was told to end or to stop: what it says or does not say is no failure. */
  isDisturbed = false;
  /** Counts its ends. */
  ends = 0;

  private constructor({ name, hasStages, start }: RestartableParts, process: FleetProcess) {
    this.name = name;
    this.hasStages = hasStages;
    this.#process = process;
    this.#start = start;
  }

  static async start(parts: RestartableParts): Promise<Restartable> {
    return new Restartable(parts, await parts.start());
  }

  get process(): FleetProcess {
    return this.#process;
  }

  /** Processes of its stages behind the first; none while it starts. */
  get stages(): readonly number[] {
    const { pid, isAlive: lives } = this.#process;
    return lives && pid !== undefined ? allStagesOf(pid) : [];
  }

  /** Throws where one of its stages stays behind. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const stages = this.hasStages ? this.stages : [];
    this.isDisturbed = true;
    this.ends++;
    await this.#process.end(signal);
    await this.#areGone(stages);
  }

  /** Waits until it ends by itself, as it must where one of `stages`, all it has, is gone. */
  async endsItself(stages: readonly number[]): Promise<void> {
    this.isDisturbed = true;
    this.ends++;
    const { process } = this;
    if (!(await comesTrue(() => !process.isAlive))) {
      throw new Error(`${this.name} goes on without one of its stages`);
    }
    await this.#areGone(stages);
  }

  async restart(): Promise<void> {
    this.#process = await this.#start();
    this.isDisturbed = false;
  }

  async #areGone(stages: readonly number[]): Promise<void> {
    if (await comesTrue(() => !stages.some(isAlive))) return;
    throw new Error(`stages of ${this.name} stay behind: ${stages.filter(isAlive)}`);
  }
}

async function comesTrue(holds: () => boolean): Promise<boolean> {
  const untilMs = performance.now() + END_MS;
  while (!holds()) {
    if (performance.now() > untilMs) return false;
    await sleep(LOOK_MS);
  }
  return true;
}
