/** `bench serve` with several loads, at a server of the test's own. */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { partsOf } from "../../charts/svg-parts.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { perigeeInside } from "../perigee.ts";

const EVENTS = [
  { choices: [{ text: "a" }] },
  { choices: [{ text: "b" }] },
  { choices: [], usage: { prompt_tokens: 4, completion_tokens: 2 } },
];

/** What is answered instead, request by request; then all is well. */
let refusals: { readonly status: number; readonly text: string }[] = [];
const busy = { status: 503, text: '{"error":{"message":"all workers are busy"}}' };
const broken = { status: 200, text: 'data: {"error":{"message":"the model was closed"}}\n\n' };

/** Prompts in the order they came. */
const prompts: string[] = [];
const server = createServer(async (request, response) => {
  if (request.url !== "/v1/completions") {
    response.end(JSON.stringify({ data: [{ id: "</text><script>" }] }));
    return;
  }
  let body = "";
  for await (const chunk of request) body += chunk;
  prompts.push(JSON.stringify(JSON.parse(body).prompt));
  const refusal = refusals.shift();
  if (refusal !== undefined) {
    response.writeHead(refusal.status).end(refusal.text);
    return;
  }
  response.end(EVENTS.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
}).listen(0, "127.0.0.1");
await once(server, "listening");
afterAll(() => server.close());
beforeEach(() => {
  prompts.length = 0;
  refusals = [];
});

const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

function measure(...words: readonly string[]) {
  const sizes = ["--prompts", "2", "--input-length", "4", "--output-length", "2"];
  return perigeeInside(["bench", "serve", "--url", url, ...sizes, "--warmups", "0", ...words]);
}

test("a list of rates is a run for each, with prompts of its own, and one picture", async () => {
  const plot = join(scratchFolder(), "rates.svg");
  const ran = await measure("--request-rate", "500,1000", "--seed", "1", "--plot", plot);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(ran.stdout)).toMatchObject([
    { requestRate: 500, completed: 2, failed: 0, seed: 1 },
    { requestRate: 1000, completed: 2, failed: 0, seed: 2 },
  ]);
  expect(new Set(prompts).size).toBe(4);
  const { texts } = partsOf(readFileSync(plot, "utf8"));
  expect(texts).toEqual(expect.arrayContaining(["Output tokens a second", "500", "1000", "p99"]));
  expect(texts.join(" ")).toContain("</text><script> at http://127.0.0.1");
});

test.for([
  [busy, "status 503", "all workers are busy"],
  [broken, "a stream broke off", "the model was closed"],
] as const)(
  "loads that all fail with %j are told one by one, and fail",
  async ([answer, ...said]) => {
    refusals = Array(4).fill(answer);
    const ran = await measure("--request-rate", "500,1000");
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    const lines = ran.stderr.trim().split("\n");
    expect(lines).toHaveLength(3);
    for (const words of ["--request-rate 500 ", ...said]) expect(lines[0]).toContain(words);
    for (const words of ["--request-rate 1000 ", ...said]) expect(lines[1]).toContain(words);
    expect(lines[2]).toBe(`perigee: Cannot measure ${url}: no request of any of 2 loads succeeded`);
  },
);

test("of loads of which one fails the others are printed, and the call fails", async () => {
  refusals = [busy, busy];
  const ran = await measure("--concurrency", "1,2");
  expect(ran.code).toBe(1);
  expect(JSON.parse(ran.stdout)).toMatchObject([{ concurrencyMax: 2, completed: 2 }]);
  expect(ran.stderr).toMatch(/Cannot measure all loads: .* with --concurrency 1$/m);
});

test("so is a list of most concurrent requests", async () => {
  const ran = await measure("--concurrency", "1,2");
  expect(JSON.parse(ran.stdout)).toMatchObject([{ concurrencyMax: 1 }, { concurrencyMax: 2 }]);
});

test("one load prints one result, and its picture has the distributions of its times", async () => {
  const plot = join(scratchFolder(), "load.svg");
  const ran = await measure("--plot", plot);
  expect(JSON.parse(ran.stdout)).toMatchObject({ benchmark: "serve", completed: 2 });
  const { texts } = partsOf(readFileSync(plot, "utf8"));
  expect(texts).toEqual(expect.arrayContaining(["first token", "end to end", "% of gaps within"]));
});

test("what cannot be drawn or measured is refused before a request is sent", async () => {
  const both = await measure("--request-rate", "1,2", "--concurrency", "1,2");
  expect(both).toMatchObject({ code: 2, stdout: "" });
  expect(both.stderr).toContain("give one of them a single number");
  const file = join(scratchFolder(), "none", "a.svg");
  const lost = await measure("--plot", file);
  expect(lost).toMatchObject({ code: 1, stdout: "" });
  expect(lost.stderr).toContain(`Cannot write ${file}: wanted for --plot a path in a folder`);
  for (const list of ["", "1,", "1,x", Array(33).fill("1").join(",")]) {
    expect(await measure("--request-rate", list)).toMatchObject({ code: 2, stdout: "" });
  }
  expect(await measure("--plot", "a.png")).toMatchObject({ code: 2, stdout: "" });
  expect(existsSync("a.png")).toBe(false);
  expect(prompts).toEqual([]);
});
