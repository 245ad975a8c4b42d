// How long a worker goes on with a request whose client has left: from the client's end of its
// connection to the end of the router's connection to the worker.
// Run: node bench/cluster/cancel-time.mjs [requests]
import { createServer, request } from "node:http";
import { startRouter } from "../../dist/cluster/index.js";

const COUNT = Number(process.argv[2] ?? 200);
const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n';
const seen = [];

const worker = createServer((incoming, response) => {
  if (incoming.url === "/v1/models") response.end('{"data":[{"id":"m"}]}');
  else if (incoming.method === "GET") response.writeHead(404).end();
  else {
    incoming.resume();
    const closed = new Promise((resolve) =>
      response.once("close", () => resolve(performance.now())),
    );
    const begin = () => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(EVENT);
    };
    seen.shift()?.({ closed, begin });
  }
});
await new Promise((resolve) => worker.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${worker.address().port}`;
const router = await startRouter({ port: 0, logLevel: "silent", worker: [url] });

async function leave(begins) {
  const arrived = new Promise((resolve) => seen.push(resolve));
  const headers = { "content-type": "application/json" };
  const client = request(`${router.url}/v1/chat/completions`, { method: "POST", headers });
  client.on("error", () => {});
  const answered = new Promise((resolve) => client.once("response", resolve));
  client.end('{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}');
  const { closed, begin } = await arrived;
  if (begins) {
    begin();
    (await answered).on("error", () => {});
  }
  const leftMs = performance.now();
  client.destroy();
  return (await closed) - leftMs;
}

for (const [name, begins] of [
  ["before the head", false],
  ["within the stream", true],
]) {
  const times = [];
  for (let at = 0; at < COUNT; at++) times.push(await leave(begins));
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(COUNT - 1, Math.floor(part * COUNT))].toFixed(2);
  console.log(`${name}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms (wanted: 100)`);
}
console.log(`open reservations: ${router.openReservations}`);
await router.close();
worker.close();
