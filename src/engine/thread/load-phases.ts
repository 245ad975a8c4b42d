/** Time and GPU memory of each part of loading. */
import { type Clock, EngineError } from "#base";
import type { Device } from "#devices";
import type { LoadPhase, LoadPhaseName } from "#engine/protocol";

const GIB = 2 ** 30;

/** The name of each part in a sentence. */
const SUBJECTS: Readonly<Record<LoadPhaseName, string>> = {
  files: "files",
  device: "the device",
  weights: "weights",
  steps: "steps",
  cache: "the cache",
  graphs: "graphs",
  drafts: "steps with drafts",
};

/** Records finished parts, and adds the memory of each to an OUT_OF_MEMORY error. */
export class LoadPhases {
  readonly #clock: Clock;
  readonly #phases: LoadPhase[] = [];
  #device: Device | null = null;
  /** In use on the device before anything was loaded. */
  #usedBytesAtFirst = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** All parts so far, in order. */
  get all(): readonly LoadPhase[] {
    return this.#phases;
  }

  /** From now on measures this device's memory, where it has its own. */
  watch(device: Device): void {
    if (!device.accelerator) return;
    this.#device = device;
    this.#usedBytesAtFirst = this.#usedBytes();
  }

  /**
   * Runs a part. Rejects with its error; an OUT_OF_MEMORY of the device gets the numbers, and the
   * settings that change them.
   */
  async run<T>(name: LoadPhaseName, work: () => T | Promise<T>): Promise<T> {
    const startMs = this.#clock.nowMs();
    const before = this.#usedBytes();
    try {
      return await work();
    } catch (error) {
      throw this.#withNumbers(name, error);
    } finally {
      const seconds = (this.#clock.nowMs() - startMs) / 1000;
      const bytes = Math.max(0, this.#usedBytes() - before);
      this.#phases.push({ name, seconds, bytes });
    }
  }

  #usedBytes(): number {
    if (this.#device === null) return 0;
    const { totalBytes, availableBytes } = this.#device.memory();
    return totalBytes - availableBytes;
  }

  #withNumbers(name: LoadPhaseName, error: unknown): unknown {
    const device = this.#device;
    if (device === null || !(error instanceof EngineError)) return error;
    if (error.code !== "OUT_OF_MEMORY") return error;
    const { totalBytes } = device.memory();
    const taken = this.#phases
      .filter(({ bytes }) => bytes > 0)
      .map((phase) => `${SUBJECTS[phase.name]} took ${gibibytes(phase.bytes)}`);
    const before = gibibytes(this.#usedBytesAtFirst);
    const numbers = [`${before} were in use before, by the driver and others`, ...taken].join(", ");
    return new EngineError(
      "OUT_OF_MEMORY",
      `${error.message}. It happened while allocating memory for ${SUBJECTS[name]}: of the ` +
        `GPU's ${gibibytes(totalBytes)}, ${numbers}; ${REMEDIES[name] ?? REMEDY_OF_WEIGHTS}`,
      { cause: error, ...(error.param === null ? {} : { param: error.param }) },
    );
  }
}

const REMEDY_OF_WEIGHTS =
  "end other processes on this GPU, or load a smaller model (quantization int8 halves the weights)";
const REMEDY_OF_STEPS =
  "end other processes on this GPU, lower stepTokensMax, runningSequencesMax or " +
  "contextTokensMax, or load a smaller model (quantization int8 halves the weights)";
const REMEDIES: Partial<Readonly<Record<LoadPhaseName, string>>> = {
  steps: REMEDY_OF_STEPS,
  cache: `raise gpuMemoryUtilization or lower poolBytes, ${REMEDY_OF_STEPS}`,
  graphs: `lower gpuMemoryUtilization, ${REMEDY_OF_STEPS}`,
  drafts: `lower gpuMemoryUtilization, ${REMEDY_OF_STEPS}`,
};

function gibibytes(bytes: number): string {
  return `${(bytes / GIB).toFixed(2)} GiB`;
}
