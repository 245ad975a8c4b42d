/** `perigee worker --mock`: workers without a model, as a fleet's tests and sizing start them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, onTestFinished, test } from "vitest";
import { json } from "../support/json.ts";
import { isAlive } from "../support/process-alive.ts";
import { built, perigeeInside } from "./perigee.ts";

const MOCK = ["worker", "--mock", "--port", "0", "--speedup", "1000"];

/** Starts mocks, and waits for the addresses of all of them. */
async function mocks(count: number, ...words: readonly string[]) {
  const more = ["--mock-workers", String(count), ...words];
  const child = spawn(process.execPath, ["dist/cli/main.js", ...MOCK, ...more], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(() => {
    if (child.pid !== undefined && isAlive(child.pid)) child.kill("SIGKILL");
  });
  let text = "";
  const urls = await new Promise<string[]>((resolve, reject) => {
    child.stderr.on("data", (chunk) => {
      text += String(chunk);
      const found = text.matchAll(/"url":"(http:[^"]+)","msg":"serving/g);
      const all = [...found].flatMap(([, url]) => url ?? []);
      if (all.length === count) resolve(all);
    });
    child.once("exit", () => reject(new Error(text)));
  });
  return { child, urls };
}

async function chat(url: string, content: string) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ model: "pocket", max_tokens: 12, temperature: 0, ignore_eos: true },
      messages: [{ role: "user", content }],
    }),
  });
  expect(response.status).toBe(200);
  return await json(response);
}

describe.runIf(built)("mock workers", () => {
  test("[CL109] of one process answer alike, have a cache each, and drain at SIGTERM", async () => {
    const { child, urls } = await mocks(3, "--mock-blocks", "500,100");
    const text = "the same words for all of them ".repeat(20);
    const answers = [];
    for (const url of urls) answers.push(await chat(url, text));
    const contents = answers.map(({ choices }) => String(choices?.[0]?.message?.content));
    expect(new Set(contents).size).toBe(1);
    expect(contents[0]?.trim().split(" ")).toHaveLength(12);
    const cached = answers.map(({ usage }) => usage?.prompt_tokens_details?.cached_tokens);
    expect(cached).toEqual([0, 0, 0]);
    const again = await chat(urls[1] ?? "", text);
    expect(again.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(100);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

describe("wrong flags", () => {
  test.each([
    [["worker", "--speedup", "3"], "--speedup: it needs --mock"],
    [[...MOCK, "--mock-blocks", "9,0,9"], "blocks reach the disk through host memory"],
    [[...MOCK, "--mock-blocks", "nine"], "--mock-blocks: is invalid"],
    [[...MOCK, "--cost-model", "h100"], "wanted h200-8b, cpu-110m or a JSON file"],
    [[...MOCK, "--mock-workers", "0"], "--mock-workers"],
    [
      [...MOCK, "--mock-workers", "2", "--advertise", "http://x:1"],
      "each has an address of its own",
    ],
  ])("%s", async (words, message) => {
    const { code, stderr } = await perigeeInside(words);
    // A file that is not there is no wrong use.
    expect(code).toBe(words.includes("h100") ? 1 : 2);
    expect(stderr).toContain(message);
  });
});
