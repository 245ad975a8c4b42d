import { expect, test } from "vitest";
import { sized } from "../support/full.ts";
import { closeRouters, routeTo } from "../support/router-fleet.ts";
import { checkAnswer, checkWire } from "./answer-check.ts";
import { caseAt } from "./case-generator.ts";
import { bodyOf, endStalled, sendBody, sendBytes } from "./case-sender.ts";
import type { HostileCase } from "./hostile-case.ts";
import { isKnownFailure } from "./known-failures.ts";
import { ServedProcess } from "./served-process.ts";

closeRouters();

const seed = 20_261_125;
const count = sized(300, 10_000);
const AT_ONCE = 8;
const timeout = sized(10, 60) * 60_000;

async function problemsOf(url: string, one: HostileCase): Promise<string[]> {
  const named = (problem: string) => `${one.name}: ${problem}`;
  if (one.kind === "wire") return checkWire(one, await sendBytes(url, one)).map(named);
  if (isKnownFailure(one)) return [];
  const problems: string[] = [];
  for (const way of one.ways) {
    const answer = await sendBody(url, one.path, bodyOf(one, way));
    problems.push(...checkAnswer(one, way, answer).problems.map(named));
  }
  return problems;
}

test(`[CL88] ${count} hostile requests through the router harm neither it nor its worker`, {
  timeout,
}, async () => {
  const worker = await ServedProcess.start(".");
  try {
    const router = await routeTo([worker.url], { writeTimeoutMs: 8000, corsOrigins: ["*"] });
    const problems: string[] = [];
    let next = 0;
    const sender = async () => {
      while (next < count) problems.push(...(await problemsOf(router.url, caseAt(seed, next++))));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, sender));
    endStalled();
    expect(problems).toEqual([]);
    await expect.poll(() => router.inWork + router.openReservations, { timeout: 60_000 }).toBe(0);
    expect(await worker.settled()).toEqual({ requests: 0, heldBlocks: 0 });
    const health = await fetch(`${router.url}/health`);
    expect(health.status).toBe(200);
  } finally {
    worker.kill();
  }
});
