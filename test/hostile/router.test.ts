import { expect, test } from "vitest";
import { FleetProcess } from "../support/fleet-process.ts";
import { sized } from "../support/full.ts";
import { checkAnswer, checkWire } from "./answer-check.ts";
import { caseAt } from "./case-generator.ts";
import { bodyOf, endStalled, sendBody, sendBytes } from "./case-sender.ts";
import type { HostileCase } from "./hostile-case.ts";
import { isKnownFailure } from "./known-failures.ts";
import { ServedProcess } from "./served-process.ts";

const seed = 20_261_125;
const count = sized(300, 10_000);
const AT_ONCE = 8;
/** Eight long bodies at a time, parsed and written again, beside code and caches. */
const GROWTH_MIB_MAX = 384;
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

/** A metric without labels. */
async function metricOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^perigee_router_${name} (\\d+)$`, "m").exec(text)?.[1]);
}

test(`[CL88] ${count} hostile requests through a router's process harm neither it nor its worker`, {
  timeout,
}, async () => {
  const worker = await ServedProcess.start(".");
  const flags = ["--port", "0", "--write-timeout-ms", "8000", "--cors-origins", "*"];
  const router = await FleetProcess.start(["route", ...flags, "--worker", worker.url]);
  try {
    const before = router.residentBytes;
    let most = before;
    const problems: string[] = [];
    let next = 0;
    const sender = async () => {
      while (next < count && router.isAlive) {
        problems.push(...(await problemsOf(router.url, caseAt(seed, next++))));
        most = Math.max(most, router.residentBytes);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, sender));
    endStalled();
    expect(router.isAlive, router.log.slice(-3).join("\n")).toBe(true);
    expect(problems).toEqual([]);
    const open = async () =>
      (await metricOf(router.url, "requests_in_work")) +
      (await metricOf(router.url, "open_reservations"));
    await expect.poll(open, { timeout: 60_000 }).toBe(0);
    expect(await metricOf(router.url, "leaked_reservations")).toBe(0);
    expect(await worker.settled()).toEqual({ requests: 0, heldBlocks: 0 });
    expect((await fetch(`${router.url}/health`)).status).toBe(200);
    // What clients do wrong is no error of the router's, and has no line each.
    const errors = router.log.filter((line) => /"level":(50|60)/.test(line));
    const ids = new Set(errors.map((line) => /"reqId":"([^"]*)"/.exec(line)?.[1] ?? ""));
    const told = router.log.filter((line) => [...ids].some((id) => line.includes(id)));
    expect(errors.length, told.slice(0, 6).join("\n")).toBe(0);
    expect((most - before) / 2 ** 20).toBeLessThan(GROWTH_MIB_MAX);
  } finally {
    await router.end("SIGKILL");
    worker.kill();
  }
});
