/** Engines of two processes on one machine: blocks go from host memory to host memory. */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LLM } from "../../../src/index.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { json } from "../../support/json.ts";

const MODEL = "models/pocket";
const HOST_BYTES = 48 * 2 ** 20;
const MAPS = "/proc/self/maps";
const OPTIONS = { device: "cpu", dtype: "float32", threads: 1 } as const;
const GREEDY = { maxTokens: 8, temperature: 0, ignoreEos: true } as const;
const PROMPT = Array.from({ length: 400 }, (_, place) => 300 + ((place * 104_729) % 3000));

/** Memory of this process that is shared between processes. */
function sharedMappings(): Set<string> {
  const lines = readFileSync(MAPS, "utf8").split("\n");
  return new Set(lines.filter((line) => line.includes("/memfd:perigee-")));
}

test.skipIf(!existsSync(MAPS))(
  "[KV70] a CPU worker's blocks are copied out of its host memory, without a connection",
  { timeout: 60_000 },
  async () => {
    const words = ["--device", "cpu", "--dtype", "float32", "--threads", "1"];
    const worker = await FleetProcess.start([
      ...[
        "worker",
        "--port",
        "0",
        "--role",
        "prefill",
        "--host-cache-bytes",
        `${HOST_BYTES}`,
        ...words,
      ],
    ]);
    try {
      const { transfer } = await json(await fetch(`${worker.url}/worker_info`));
      const kvSource = {
        ...(transfer as unknown as { host: string; port: number }),
        compute: true,
      };
      await using alone = await LLM.load(MODEL, OPTIONS);
      await using decode = await LLM.load(MODEL, { ...OPTIONS, kvTransfer: {} });
      const before = sharedMappings();
      const prompt = [{ promptTokenIds: PROMPT }];
      const [expected] = await alone.generate(prompt, GREEDY);
      const [found] = await decode.generate(prompt, { ...GREEDY, kvSource });
      expect(found?.completions).toEqual(expected?.completions);
      expect(decode.stats().computedPromptTokens).toBe(1);
      const sizes = [...sharedMappings()].filter((line) => !before.has(line)).map(bytesOf);
      // The worker's host memory, whole blocks of it; the rest are small: words and descriptions.
      expect(Math.max(...sizes)).toBeGreaterThan(HOST_BYTES * 0.8);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(HOST_BYTES);
    } finally {
      await worker.end("SIGTERM");
    }
  },
);

function bytesOf(line: string): number {
  const [, from = "0", to = "0"] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line) ?? [];
  return Number.parseInt(to, 16) - Number.parseInt(from, 16);
}
