/** All of served-responses.test.ts once more, answered by two threads beside the main one. */
import { existsSync } from "node:fs";
import { test, vi } from "vitest";

if (existsSync("dist/server/answering/answering-thread.js")) {
  process.env.PERIGEE_TEST_ANSWERING_THREADS = "2";
  // Where files share modules, those tests may have been read before.
  vi.resetModules();
  await import("./served-responses.test.ts");
  // Read when the module is: other files that run here have threads of their own choice.
  delete process.env.PERIGEE_TEST_ANSWERING_THREADS;
} else {
  test.skip("threads run what was built: npm run build comes first", () => {});
}
