/** Flags of workers without a model, and what each of several of them is started with. */
import type { Command } from "commander";
import { EngineError } from "#base";
import { LLM, MOCK_STEP_TOKENS, MockWorkerOptions, mockOptions } from "#engine";
import type { LoadRequest } from "./engine-flags.ts";
import { type FlagValues, SchemaFlags } from "./flags.ts";

const mockFlags = new SchemaFlags(MockWorkerOptions);

/** Flags that say something of a mock alone. */
const OWN = ["costModel", "speedup", "mockBlocks", "meanOutputTokens", "mockWorkers"];

/** One of the mocks of a command line. */
export interface MockToStart {
  /** Flags that differ from those of the command line. */
  readonly values: FlagValues;
  readonly load: NonNullable<LoadRequest["load"]>;
}

export function addMockFlags(command: Command): void {
  mockFlags.addTo(command, "Mock:");
}

/** The mocks that flags ask for; null: none, the worker has a model. Throws INVALID_ARGUMENT. */
export function readMocks(flags: FlagValues): readonly MockToStart[] | null {
  mockFlags.check(flags);
  const config = MockWorkerOptions.parse(mockFlags.collect(flags));
  if (!config.mock) {
    refuseOwn(flags);
    return null;
  }
  const { mockWorkers, mockBlocks } = config;
  const mock = mockOptions({
    costModel: config.costModel,
    speedup: config.speedup,
    meanOutputTokens: config.meanOutputTokens,
    blocks: mockBlocks === null ? null : blocksOf(mockBlocks),
  });
  let first: Promise<LLM> | null = null;
  const load: MockToStart["load"] = async (place, options) => {
    const { engineThread = false, scheduler } = options;
    const own = {
      ...options,
      ...{ mock, engineThread: flags.engineThread === undefined ? false : engineThread },
      scheduler: { stepTokensMax: MOCK_STEP_TOKENS, ...scheduler },
    };
    // All but the first share its tokenizer.
    if (first !== null) return await LLM.load(place, { ...own, textOf: await first });
    first = LLM.load(place, own);
    return await first;
  };
  return Array.from({ length: mockWorkers }, (_, place) => ({
    values: valuesOf(flags, { place, count: mockWorkers }),
    load,
  }));
}

function refuseOwn(flags: FlagValues): void {
  const given = OWN.find((name) => flags[name] !== undefined);
  if (given === undefined) return;
  const flag = `--${given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new EngineError("INVALID_ARGUMENT", `Cannot use ${flag}: it needs --mock`, { param: flag });
}

function blocksOf(text: string): [number, number, number] {
  const [device = 1, host = 0, disk = 0] = text.split(",").map(Number);
  if (disk > 0 && host === 0) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use --mock-blocks ${text}: blocks reach the disk through host memory, ` +
        "which must have some",
      { param: "--mock-blocks" },
    );
  }
  return [device, host, disk];
}

/** Several in one process: ports count up, names have the place, and no threads answer. */
function valuesOf(
  flags: FlagValues,
  { place, count }: { readonly place: number; readonly count: number },
): FlagValues {
  // A mock has little to do: threads that answer would only take memory.
  const { answeringThreads = 0 } = flags;
  if (count === 1) return { answeringThreads };
  const { port = 8000, workerId, kvEventsZmq, kvEventsZmqReplay, advertise } = flags;
  if (advertise !== undefined) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot use --advertise with several --mock-workers: each has an address of its own",
      { param: "--advertise" },
    );
  }
  return {
    port: Number(port) === 0 ? 0 : Number(port) + place,
    answeringThreads: 0,
    ...(typeof workerId === "string" && { workerId: `${workerId}-${place}` }),
    ...(typeof kvEventsZmq === "string" && { kvEventsZmq: portPlus(kvEventsZmq, place) }),
    ...(typeof kvEventsZmqReplay === "string" && {
      kvEventsZmqReplay: portPlus(kvEventsZmqReplay, place),
    }),
  };
}

/** `tcp://*:5557` with a port that is higher by `place`. */
function portPlus(endpoint: string, place: number): string {
  return endpoint.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + place}`);
}
