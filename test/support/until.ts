import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE_MS = 20_000;
const STEP_MS = 5;

/** Waits until something holds; fails, saying what, after far longer than it should take. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const start = performance.now();
  while (!(await holds())) {
    if (performance.now() - start > PATIENCE_MS) throw new Error(`never came true: ${what}`);
    await sleep(STEP_MS);
  }
}
