// node bench/cluster/mock-fleet.mjs [--workers 8] [--speedup 1] [--cost-model h200-8b]
//   [--blocks 20000,0,0] [--port 0] [--model-name NAME] [--kv-events]
// Mock workers in this process, each with an address: their URLs, a line each. With --kv-events
// also where each publishes its KV events by ZeroMQ, and replays them. SIGTERM ends them.
import { startMockModels } from "../../dist/index.js";
import { startServer } from "../../dist/server/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { freePort } from "./free-port.mjs";

const { values } = readFlags({
  options: {
    workers: { type: "number", default: 8, min: 1 },
    speedup: { type: "number", default: 1, min: 0.001 },
    "cost-model": { type: "string", default: "h200-8b" },
    blocks: { type: "numbers" },
    port: { type: "number", default: 0 },
    "model-name": { type: "string" },
    "kv-events": { type: "boolean", default: false },
  },
});
const models = await startMockModels(values.workers, {
  costModel: values["cost-model"],
  speedup: values.speedup,
  meanOutputTokens: null,
  // Hashes are then vLLM's: readers of its events may compute them again.
  ...(values["kv-events"] ? { kvCache: { hashAlgorithm: "sha256_cbor" } } : {}),
  onWarning: () => {},
  ...(values.blocks === undefined ? {} : { blocks: values.blocks }),
});
const servers = [];
for (const [place, model] of models.entries()) {
  const port = values.port === 0 ? 0 : values.port + place;
  const events = values["kv-events"] ? await eventAddresses() : [];
  const [kvEventsZmq = null, kvEventsZmqReplay = null] = events;
  const server = await startServer(model, {
    ...{ port, answeringThreads: 0, logLevel: "error", kvEventsZmq, kvEventsZmqReplay },
    ...(values["model-name"] === undefined ? {} : { servedModelName: [values["model-name"]] }),
  });
  servers.push({ server, events });
}
for (const { server, events } of servers) console.log([server.url, ...events].join(" "));
await new Promise((resolve) => {
  process.once("SIGTERM", resolve);
  process.once("SIGINT", resolve);
});
await Promise.all(servers.map(({ server }) => server.close()));
for (const model of models.reverse()) await model.close();

async function eventAddresses() {
  return [`tcp://127.0.0.1:${await freePort()}`, `tcp://127.0.0.1:${await freePort()}`];
}
