import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { messageOf } from "#base";
import { describeDevices } from "#devices";
import { grammarProblem, LLM } from "#engine";
import { cacheSizes, type LevelSize, sizesText } from "../cache-sizes.ts";
import { cudaFromEnvironment } from "../cuda-environment.ts";
import { bundledModel, packageVersion } from "../package-root.ts";

/** `perigee doctor`: reports available devices, missing parts and their remedies. */
export function defineDoctor(command: Command): void {
  command.option("--json", "Print JSON.").action(async (flags: { json?: boolean }) => {
    const found = await examine();
    if (flags.json === true) process.stdout.write(`${JSON.stringify(found, null, 2)}\n`);
    else process.stdout.write(format(found));
  });
}

type DeviceReport = Awaited<ReturnType<typeof describeDevices>>[number];

interface Findings {
  readonly perigee: string;
  readonly node: string;
  readonly platform: string;
  readonly devices: readonly DeviceReport[];
  readonly bundledModel: boolean;
  /** Why structured output is not available; null if it is. */
  readonly grammarProblem: string | null;
  /** The default cache sizes of that model; null if the model does not load. */
  readonly kvCache: readonly LevelSize[] | null;
  /** Why the model does not load; null if it does. */
  readonly problem: string | null;
  /** In one line: whether models run, and on what. */
  readonly verdict: string;
}

async function examine(): Promise<Findings> {
  const devices = await describeDevices(cudaFromEnvironment());
  const loaded = await tryBundledModel();
  return {
    perigee: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    devices,
    bundledModel: existsSync(join(bundledModel, "config.json")),
    grammarProblem: grammarProblem(),
    ...loaded,
    verdict: verdictOn(devices),
  };
}

/** Loads the bundled model as a server would, and releases it. */
async function tryBundledModel(): Promise<Pick<Findings, "kvCache" | "problem">> {
  try {
    await using llm = await LLM.load(bundledModel, { cuda: cudaFromEnvironment() });
    return { kvCache: cacheSizes(llm.info, llm.stats().cache), problem: null };
  } catch (error) {
    return { kvCache: null, problem: messageOf(error) };
  }
}

/** The device that `--device auto` selects. `reference` runs everywhere. */
function verdictOn(devices: readonly DeviceReport[]): string {
  const there = (wanted: string) =>
    devices.find(({ kind, available }) => kind === wanted && available);
  const best = there("cuda") ?? there("cpu");
  if (best === undefined) {
    return "ready, but slow: models run on reference until the cpu device works (see above)";
  }
  // `cpu: NAME, avx512, 2 threads (…)` as `cpu (NAME, avx512, 2 threads)`.
  const [, kind, place = ""] = /^(\w+): (.*?)(?: \([^()]*\))?$/.exec(best.description) ?? [];
  return `ready: models run on ${kind}${place === "" ? "" : ` (${place})`}`;
}

function format(found: Findings): string {
  const lines = [
    `perigee ${found.perigee} · node ${found.node} · ${found.platform}`,
    ...found.devices.flatMap(deviceLines),
    `${found.bundledModel ? "ok     " : "missing"} bundled model (models/pocket)`,
    ...cacheLines(found),
    found.grammarProblem === null
      ? "ok      structured output"
      : `missing structured output: ${found.grammarProblem}`,
    found.verdict,
  ];
  return `${lines.join("\n")}\n`;
}

function cacheLines({ kvCache, problem }: Findings): string[] {
  if (kvCache === null) return [`missing KV cache: ${problem}`];
  const more = "--host-cache-bytes and --disk-cache-bytes add levels";
  return [`ok      KV cache of this model: ${sizesText(kvCache)}`, `        ${more}`];
}

/** The lines of one device. A missing GPU is not an error. */
function deviceLines({ kind, available, description, remedy, details }: DeviceReport): string[] {
  const missing = kind === "cuda" ? "-      " : "missing";
  const line = `${available ? "ok     " : missing} ${description}`;
  const more = remedy === null ? details : [remedy, ...details];
  return [line, ...more.map((each) => `        ${each}`)];
}
