/** The engine's own thread: connects the message port to an `EngineService`, nothing else. */
import { parentPort, workerData } from "node:worker_threads";
import { assert, systemClock, systemTimer } from "#base";
import { type FromEngine, Heartbeat, type ToEngine } from "#engine/protocol";
import { EngineService } from "./service.ts";

const port = parentPort;
assert(port !== null, "engine-thread.js is started by openLink, as a worker");

const service = new EngineService({
  clock: systemClock,
  timer: systemTimer,
  heartbeat: new Heartbeat(workerData as SharedArrayBuffer), // as openLink gives it
  post: (message: FromEngine) => port.postMessage(message),
});
port.on("message", (messages: readonly ToEngine[]) => {
  for (const message of messages) service.receive(message);
});
void service.closed.then(() => port.close());
