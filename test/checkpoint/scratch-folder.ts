import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty directory that goes away with the test. */
export function scratchFolder(): string {
  const directory = mkdtempSync(join(tmpdir(), "perigee-checkpoint-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
