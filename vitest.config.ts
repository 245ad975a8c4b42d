import { defineConfig } from "vitest/config";

export default defineConfig({
  ssr: { resolve: { conditions: ["source"] } },
  resolve: { conditions: ["source"] },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["dist", "node_modules"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
