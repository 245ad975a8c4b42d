/** Files of settings for tests, in a folder that goes when the tests of a file have ended. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

let folder: string | null = null;

afterAll(() => {
  if (folder !== null) rmSync(folder, { recursive: true });
  folder = null;
});

/** Writes a file, and returns its path. */
export function temporaryFile(name: string, text: string): string {
  folder ??= mkdtempSync(join(tmpdir(), "perigee-settings-"));
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}
