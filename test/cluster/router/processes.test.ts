import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { full } from "../../support/full.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";

closeRouters();

const children: ChildProcess[] = [];

/** `perigee serve` of the bundled model, in a process of its own. */
async function serve(): Promise<{ child: ChildProcess; url: string }> {
  const flags = ["--port", "0", "--device", "cpu", "--speculative", "off"];
  const child = spawn(process.execPath, ["dist/cli/main.js", "serve", ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  children.push(child);
  const { stderr } = child;
  if (stderr === null) throw new Error("no standard error");
  const lines = createInterface({ input: stderr });
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The worker ended with ${code}`)));
    lines.on("line", (line) => {
      const found = /serving \S+ at (http:[\w.:/]+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  return { child, url };
}

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
});

const STREAMS = full ? 64 : 24;
const TOKENS = full ? 120 : 60;

interface Said {
  readonly text: string;
  readonly completionTokens: number | undefined;
}

describe("processes of workers", () => {
  let workers: { child: ChildProcess; url: string }[] = [];
  beforeAll(async () => {
    workers = await Promise.all([serve(), serve()]);
  });

  /** Streams of different prompts and seeds at once; `during` is called when all have begun. */
  async function streams(url: string, during: () => void): Promise<Said[]> {
    const { client } = clientsOf({ url } as Parameters<typeof clientsOf>[0]);
    let begun = 0;
    return Promise.all(
      Array.from({ length: STREAMS }, async (_, at) => {
        const stream = await client.chat.completions.create({
          ...{ model: "pocket", max_tokens: TOKENS, temperature: 1, seed: at },
          messages: [{ role: "user", content: `Tell me story number ${at}.` }],
          stream: true,
          stream_options: { include_usage: true },
          ...{ ignore_eos: true },
        });
        let text = "";
        let completionTokens: number | undefined;
        let isFirst = true;
        for await (const chunk of stream) {
          text += chunk.choices[0]?.delta.content ?? "";
          completionTokens = chunk.usage?.completion_tokens ?? completionTokens;
          if (isFirst && ++begun === STREAMS) during();
          isFirst = false;
        }
        return { text, completionTokens };
      }),
    );
  }

  test(`[CL84] one is killed under ${STREAMS} streams: all go on, with the tokens of an undisturbed run`, async () => {
    const router = await routeTo(workers.map(({ url }) => url));
    const undisturbed = await streams(router.url, () => {});
    let killed = false;
    const disturbed = await streams(router.url, () => {
      workers[0]?.child.kill("SIGKILL");
      killed = true;
    });
    expect(killed).toBe(true);
    expect(disturbed).toEqual(undisturbed);
    expect(disturbed.every(({ completionTokens }) => completionTokens === TOKENS)).toBe(true);
    const metrics = await (await clientsOf(router).get("/metrics")).text();
    const moved = /perigee_router_migrations_total\{.*\} (\d+)/.exec(metrics);
    expect(Number(moved?.[1])).toBeGreaterThan(0);
    // A request that moved arrived once, and had one first token.
    for (const name of ["overhead_ms", "time_to_first_token_seconds"]) {
      const counts = metrics.matchAll(new RegExp(`^perigee_router_${name}_count.* (\\d+)$`, "gm"));
      const all = [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
      expect(all, name).toBe(2 * STREAMS);
    }
    await expect.poll(() => router.openReservations).toBe(0);
  });

  test("[CL85] one is stopped (SIGSTOP): its streams go on elsewhere after the deadline", async () => {
    const [, second] = workers;
    const third = await serve();
    const urls = [second?.url ?? "", third.url];
    const router = await routeTo(urls, { tokenTimeoutMs: 3000, firstTokenTimeoutMs: 20_000 });
    const undisturbed = await streams(router.url, () => {});
    const disturbed = await streams(router.url, () => third.child.kill("SIGSTOP"));
    expect(disturbed).toEqual(undisturbed);
    third.child.kill("SIGCONT");
    await expect.poll(() => router.openReservations).toBe(0);
  });
});
