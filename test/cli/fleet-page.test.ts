/** The lines of docs/fleet.md, as a reader pastes them; only their ports are others. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { freePort, NO_REDIS } from "../support/redis-server.ts";
import { built, perigeeInside } from "./perigee.ts";

const page = readFileSync("docs/fleet.md", "utf8");
const lines = /```sh\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
const skipped = built ? NO_REDIS : "needs npm run build";

/** Each port of the lines, and a free one instead. */
async function otherPorts(): Promise<ReadonlyMap<string, number>> {
  const named = new Set([...lines.matchAll(/(?:--port |127\.0\.0\.1:)(\d{4})/g)].map(([, p]) => p));
  const ports = new Map<string, number>();
  for (const port of named) ports.set(port ?? "", await freePort());
  return ports;
}

/** Starts all that the lines start, in a folder of its own; ended with the test. */
function paste(script: string) {
  const ours = `npx() { shift; "${process.execPath}" "${resolve("dist/cli/main.js")}" "$@"; }\n`;
  const shell = spawn("bash", ["-c", ours + script], {
    ...{ cwd: scratchFolder(), detached: true },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => {
    if (shell.pid !== undefined) process.kill(-shell.pid, "SIGKILL");
  });
  let output = "";
  shell.stdout.on("data", (chunk) => {
    output += chunk;
  });
  return { ended: once(shell, "exit"), output: () => output };
}

const served = async (port: number | undefined): Promise<unknown> => {
  const response = await fetch(`http://127.0.0.1:${port}/v1/models`).catch(() => null);
  return response?.ok ? JSON.parse(await response.text()).data[0]?.workers : null;
};

test.skipIf(skipped !== null)(
  `docs/fleet.md: its lines start two fleets${skipped === null ? "" : ` (${skipped})`}`,
  async () => {
    const ports = await otherPorts();
    const moved = lines.replace(/\b\d{4}\b/g, (port) => String(ports.get(port) ?? port));
    const { ended, output } = paste(moved);
    expect(await ended).toEqual([0, null]);
    const lists = output().match(/\{"object":"list".*?\}\]\}/g) ?? [];
    expect(lists.map((list) => JSON.parse(list).data[0].id)).toEqual(["pocket", "pocket"]);
    for (const port of ["8000", "8100", "8101"]) {
      await expect.poll(() => served(ports.get(port)), { timeout: 30_000 }).toBe(2);
    }
    const explain = (port: string) =>
      perigeeInside(["route", "--port", String(ports.get(port)), "--explain", "Who are you?"]);
    // Until a worker has shown that it makes the same ids, prompts are looked up as texts.
    await expect
      .poll(async () => (await explain("8101")).stdout, { timeout: 30_000 })
      .toMatch(/gets it \(policy kv: .*\n.*from: router/);
    expect(await explain("8001")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("must be a router's, current value is another server's"),
    });
  },
);
