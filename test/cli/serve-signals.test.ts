/** How `perigee serve` begins and ends, as shells and process managers see it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { json } from "../support/json.ts";
import { isAlive } from "../support/process-alive.ts";
import { built } from "./perigee.ts";

const model = "test/fixtures/models/llama";
const flags = ["--device", "reference", "--port", "0"];

/** A command that serves: its process, and where and as which process the server says it runs. */
async function serving(command: string, words: readonly string[]) {
  const child = spawn(command, words, { stdio: ["ignore", "ignore", "pipe"] });
  let text = "";
  const found = await new Promise<RegExpExecArray>((resolve, reject) => {
    child.stderr.on("data", (chunk) => {
      text += String(chunk);
      const match = /serving \S+ at (http:[^\s"]+) \(process (\d+)\)/.exec(text);
      if (match !== null) resolve(match);
    });
    child.once("exit", () => reject(new Error(text)));
  });
  const pid = Number(found[2]);
  onTestFinished(() => {
    if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  return { child, url: found[1] ?? "", pid };
}

/** A request that keeps the server at work until it is ended. */
function busy(url: string): Promise<unknown> {
  const headers = { "content-type": "application/json" };
  const prompt = [1, 2, 3];
  const body = JSON.stringify({ prompt, max_tokens: 250, n: 32, temperature: 1, ignore_eos: true });
  return fetch(`${url}/v1/completions`, { method: "POST", headers, body }).catch(() => null);
}

function codeOf(child: ChildProcess): Promise<unknown[]> {
  return once(child, "exit");
}

describe.runIf(built)("perigee serve", () => {
  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("a second %s gives exit code %d", async (signal, code) => {
    const { child, url } = await serving(process.execPath, [
      ...["dist/cli/main.js", "serve", model, ...flags],
    ]);
    const answer = busy(url);
    await expect
      .poll(async () => (await json(fetch(`${url}/server_info`))).requests_in_work)
      .toBe(1);
    const exited = codeOf(child);
    child.kill(signal);
    await expect.poll(async () => (await fetch(`${url}/health`)).status).toBe(503);
    child.kill(signal);
    expect(await exited).toEqual([code, null]);
    await answer;
  });

  test("[KV75] SIGTERM writes what is cached to disk, says so, and the next server has it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-serve-signals-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const disk = ["--disk-cache-bytes", "16777216", "--disk-cache-dir", folder];
    const words = ["dist/cli/main.js", "serve", model, ...flags, "--onboard", "always", ...disk];
    const cached: unknown[] = [];
    for (let life = 0; life < 2; life++) {
      const { child, url } = await serving(process.execPath, words);
      let text = "";
      child.stderr?.on("data", (chunk) => {
        text += String(chunk);
      });
      const prompt = Array.from({ length: 65 }, (_, index) => 3 + index);
      const body = JSON.stringify({ prompt, max_tokens: 1 });
      const headers = { "content-type": "application/json" };
      const { usage } = await json(
        fetch(`${url}/v1/completions`, { method: "POST", headers, body }),
      );
      cached.push(usage?.prompt_tokens_details?.cached_tokens);
      const closed = once(child, "close");
      child.kill("SIGTERM");
      expect(await closed).toEqual([0, null]);
      expect(text).toMatch(life === 0 ? /wrote 4 blocks, .*, to disk in / : /wrote 0 blocks, /);
    }
    expect(cached).toEqual([0, 64]);
  });

  test("a port in use is found before the model is loaded", async () => {
    const taken = createServer();
    taken.listen(0, "127.0.0.1");
    await once(taken, "listening");
    onTestFinished(() => void taken.close());
    const address = taken.address();
    const port = typeof address === "object" ? String(address?.port) : "";
    // A model that is not there would be the error, were it looked for first.
    const words = ["dist/cli/main.js", "serve", "no/such/model", "--port", port];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "ignore", "pipe"] });
    let text = "";
    child.stderr.on("data", (chunk) => {
      text += String(chunk);
    });
    expect(await codeOf(child)).toEqual([1, null]);
    expect(text).toMatch(/^perigee: Cannot listen on 127\.0\.0\.1:\d+: .*; choose another port\n$/);
  });

  test("a server that npm started ends when npm is told to end", async () => {
    const words = ["start", "--silent", "--", model, ...flags];
    const { child, pid } = await serving("npm", words);
    expect(isAlive(pid)).toBe(true);
    child.kill("SIGTERM");
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });
});
