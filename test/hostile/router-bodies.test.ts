import { request } from "node:http";
import { expect, test } from "vitest";
import { FleetProcess } from "../support/fleet-process.ts";
import { sized } from "../support/full.ts";
import { closeStrangeWorkers, strangeWorker } from "../support/strange-worker.ts";

closeStrangeWorkers();

const MIB = 2 ** 20;
const PATH = "/v1/chat/completions";
const FLAGS = [
  ...["--request-bytes-max", String(4 * MIB), "--bodies-bytes-max", String(16 * MIB)],
  // The worker that keeps long requests is not full: short ones go to it at once.
  ...["--worker-wait-ms", "600000"],
];
/** Measured: 161. Bodies as text, values and copies on their way, beside code and garbage. */
const GROWTH_MIB_MAX = 256;
const rounds = sized(12, 200);

/** A body whose numbers take most room: half of it may be such. */
function longBody(at: number): string {
  const numbers = "7,".repeat(MIB - 1000);
  const field = at % 2 === 0 ? `"logit_bias":{"1":1},"stop_token_ids":[${numbers}7]` : '"n":1';
  return `{"model":"toy",${field},"messages":[{"role":"user","content":"${"é".repeat(MIB / 2)}"}]}`;
}

function send(url: string, body: string): Promise<{ status: number; hangUp: () => void }> {
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url + PATH, { method: "POST", headers, agent: false }, (response) => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, hangUp });
    });
    const hangUp = () => sent.destroy();
    sent.on("error", () => resolve({ status: 0, hangUp }));
    sent.end(body);
    setTimeout(() => resolve({ status: -1, hangUp }), 300);
  });
}

test("[CL150] long bodies without an answer take bounded memory, and short requests are served", {
  timeout: sized(2, 10) * 60_000,
}, async () => {
  const worker = await strangeWorker((incoming, response) => {
    let bytes = 0;
    incoming.on("data", (part: Buffer) => {
      bytes += part.length;
    });
    incoming.on("end", () => {
      if (bytes < 1000) response.setHeader("content-type", "application/json").end("{}");
    });
  });
  const router = await FleetProcess.start(["route", "--port", "0", ...FLAGS, "--worker", worker]);
  try {
    const before = router.residentBytes;
    let most = before;
    const seen = new Map<number, number>();
    for (let round = 0; round < rounds; round++) {
      const sent = await Promise.all(
        Array.from({ length: 8 }, (_, at) => send(router.url, longBody(at))),
      );
      for (const { status } of sent) seen.set(status, (seen.get(status) ?? 0) + 1);
      most = Math.max(most, router.residentBytes);
      const short = await fetch(router.url + PATH, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"model":"toy","messages":[{"role":"user","content":"hi"}]}',
      });
      expect(short.status).toBe(200);
      // Some stay: what they hold is given back when they leave.
      if (round % 4 === 3) for (const { hangUp } of sent) hangUp();
      else setTimeout(() => sent.map(({ hangUp }) => hangUp()), 500);
    }
    expect(seen.get(503)).toBeGreaterThan(0);
    expect(seen.get(-1)).toBeGreaterThan(0);
    expect([...seen.keys()].every((status) => [503, -1, 0].includes(status))).toBe(true);
    await expect
      .poll(
        async () =>
          (await (await fetch(`${router.url}/metrics`)).text()).match(/body_bytes (\d+)/)?.[1],
        { timeout: 10_000 },
      )
      .toBe("0");
    expect(router.log.filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
    expect((most - before) / MIB).toBeLessThan(GROWTH_MIB_MAX);
  } finally {
    await router.end("SIGKILL");
  }
});
