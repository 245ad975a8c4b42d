/** A coding agent's session on a real engine: what its billing header does to the prefix cache. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { startServer } from "#server";
import { playSession, writeLongModel } from "../../../bench/agent-session-load.mjs";
import { cpuThreads, sized } from "../../support/full.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-agent-session-"));
writeLongModel(folder, 65_536);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const systemTokens = sized(6_000, 28_000);
const turns = sized(4, 12);

async function hitRates(moveKnownNoise: boolean) {
  await using llm = await LLM.load(folder, {
    ...{ device: "cpu", dtype: "float32", randomWeights: true, threads: cpuThreads },
    scheduler: { stepTokensMax: 2048 },
  });
  await using server = await startServer(llm, {
    ...{ port: 0, logLevel: "silent", answeringThreads: 0, servedModelName: ["tiny"] },
    moveKnownNoise,
  });
  const rows = await playSession({ url: server.url, model: "tiny", systemTokens, turns });
  expect(rows[0]?.promptTokens).toBeGreaterThan(systemTokens);
  return rows.slice(1).map(({ hitRate }) => hitRate);
}

test(`${turns} turns of an agent with ${systemTokens} tokens of instructions hit from the second`, {
  timeout: sized(2, 20) * 60_000,
}, async () => {
  for (const rate of await hitRates(true)) expect(rate).toBeGreaterThanOrEqual(0.95);
});

test("with the header where agents put it almost nothing hits", {
  timeout: sized(2, 20) * 60_000,
}, async () => {
  for (const rate of await hitRates(false)) expect(rate).toBeLessThan(0.02);
});
