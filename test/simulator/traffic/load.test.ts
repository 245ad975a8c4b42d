/** bench/cluster/load.mjs against mock workers: what it sends, and what it counts. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { startMockModels } from "#engine";
import { startServer } from "#server";
import { built } from "../../cli/perigee.ts";

const execute = promisify(execFile);

/** URLs of mocks in this process. */
async function mocks(count: number): Promise<string> {
  const models = await startMockModels(count, {
    ...{ speedup: 1000, meanOutputTokens: null, textWorkers: 2, onWarning: () => {} },
  });
  const servers = await Promise.all(
    models.map((model) => startServer(model, { port: 0, answeringThreads: 0, logLevel: "silent" })),
  );
  onTestFinished(async () => {
    for (const server of servers) await server.close();
    for (const model of models) await model.close();
  });
  return servers.map(({ url }) => url).join(",");
}

interface LoadReport {
  readonly completed: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly hitRate: number;
  readonly idealHitRate: number;
  readonly traffic: { readonly promptTokens: number; readonly outputTokens: number };
  readonly ttftMs: { readonly p50: number; readonly p90: number };
}

async function send(...words: readonly string[]): Promise<LoadReport> {
  const { stdout } = await execute(process.execPath, ["bench/cluster/load.mjs", ...words]);
  return JSON.parse(stdout) as LoadReport; // as load.mjs writes it
}

const QUICK = ["--speedup", "1000", "--rate-scale", "10", "--ideal"];

describe.runIf(built)("the load generator", () => {
  test("sends ids and text as the same tokens, and counts hits as the server does", async () => {
    const traffic = ["--traffic", "chats", "--requests", "40", ...QUICK];
    for (const api of ["ids", "text"]) {
      const report = await send("--url", await mocks(1), "--api", api, ...traffic);
      expect(report).toMatchObject({ completed: 40, errors: {} });
      expect(report.promptTokens).toBe(report.traffic.promptTokens);
      expect(report.outputTokens).toBe(report.traffic.outputTokens);
      // Begun blocks are found, too; requests that come together do not find each other.
      expect(report.hitRate).toBeGreaterThan(report.idealHitRate / 2);
      expect(report.hitRate).toBeLessThan(report.idealHitRate + 0.03);
      expect(report.ttftMs.p90).toBeGreaterThanOrEqual(report.ttftMs.p50);
    }
  });

  test("sends chats with the answers that were heard, takes turns, and counts errors", async () => {
    const urls = await mocks(2);
    const traffic = ["--traffic", "agents", "--requests", "30", "--api", "chat", ...QUICK];
    const report = await send("--url", urls, ...traffic);
    expect(report).toMatchObject({ completed: 30, errors: {} });
    // The template's own tokens come on top.
    expect(report.promptTokens).toBeGreaterThan(report.traffic.promptTokens);
    const [first = ""] = urls.split(",");
    const refused = await send("--url", first, "--model", "another", ...traffic);
    expect(refused).toMatchObject({ completed: 0, errors: { "HTTP 404": 30 } });
  });
});
