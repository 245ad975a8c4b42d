import { defineConfig } from "vitest/config";
import { sized } from "./test/support/full.ts";

const minuteMs = 60_000;

export default defineConfig({
  ssr: { resolve: { conditions: ["source"] } },
  resolve: { conditions: ["source"] },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["dist", "node_modules"],
    testTimeout: sized(minuteMs, 20 * minuteMs),
    hookTimeout: sized(2 * minuteMs, 20 * minuteMs),
    pool: "forks",
    maxWorkers: 2,
  },
});
