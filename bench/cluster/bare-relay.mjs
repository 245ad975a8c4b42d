/**
 * The floor of a relay in Node: bytes of one connection are written to another one, and nothing is
 * read, counted or decided. Prints its address.
 *
 *   node bench/cluster/bare-relay.mjs WORKER_URL
 */
import { connect, createServer } from "node:net";

const { hostname, port } = new URL(process.argv[2]);

const server = createServer({ noDelay: true }, (client) => {
  const worker = connect({ host: hostname, port: Number(port), noDelay: true });
  // By hand: `pipe` costs more than the copy.
  client.on("data", (bytes) => worker.write(bytes)).on("close", () => worker.destroy());
  worker.on("data", (bytes) => client.write(bytes)).on("close", () => client.destroy());
  for (const socket of [client, worker]) socket.on("error", () => socket.destroy());
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
