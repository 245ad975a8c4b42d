/** Processes that are to end with the one that started them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

const entry = "dist/engine/thread/stage-process.js";

test.runIf(existsSync(entry))(
  "[PP19] a stage whose starter has ended already ends at once",
  async () => {
    // The second process of the machine, or none: it started no test.
    const stage = spawn(process.execPath, [entry, "2"], {
      stdio: ["ignore", "ignore", "inherit", "pipe"],
    });
    onTestFinished(() => void stage.kill("SIGKILL"));
    expect(await once(stage, "exit")).toEqual([1, null]);
  },
  30_000,
);
