// node bench/cluster/mock-fleet.mjs [--workers 8] [--speedup 1] [--cost-model h200-8b]
//   [--blocks 20000,0,0] [--port 0]
// Mock workers in this process, each with an address: their URLs, a line each. SIGTERM ends them.
import { parseArgs } from "node:util";
import { startMockModels } from "../../dist/index.js";
import { startServer } from "../../dist/server/index.js";

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "8" },
    speedup: { type: "string", default: "1" },
    "cost-model": { type: "string", default: "h200-8b" },
    blocks: { type: "string" },
    port: { type: "string", default: "0" },
  },
});
const count = Number(values.workers);
const firstPort = Number(values.port);
const models = await startMockModels(count, {
  costModel: values["cost-model"],
  speedup: Number(values.speedup),
  meanOutputTokens: null,
  onWarning: () => {},
  ...(values.blocks === undefined ? {} : { blocks: values.blocks.split(",").map(Number) }),
});
const servers = [];
for (const [place, model] of models.entries()) {
  const port = firstPort === 0 ? 0 : firstPort + place;
  servers.push(await startServer(model, { port, answeringThreads: 0, logLevel: "error" }));
}
for (const { url } of servers) console.log(url);
await new Promise((resolve) => {
  process.once("SIGTERM", resolve);
  process.once("SIGINT", resolve);
});
await Promise.all(servers.map((server) => server.close()));
for (const model of models.reverse()) await model.close();
