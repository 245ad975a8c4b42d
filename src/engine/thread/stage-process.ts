/** The process of a stage behind the first one: started by the stage before, and ends with it. */
import { Socket } from "node:net";
import { systemClock, systemTimer } from "#base";
import {
  endWithParent,
  FrameChannel,
  type FromStage,
  STREAM_FD,
  StageServer,
  type ToStage,
} from "#engine/pipeline";
import { StageLoad } from "./load-stage.ts";

const LEAVE_MS = 100;

if (!endWithParent(Number(process.argv[2]))) process.exit(1);

// Signals of a terminal reach all processes of its group: the first stage decides what ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const channel = new FrameChannel<ToStage, FromStage>(
  new Socket({ fd: STREAM_FD, readable: true, writable: true }),
);
const warn = (message: string) => channel.send({ type: "warning", message });
const context = {
  ...{ clock: systemClock, timer: systemTimer, warn },
  onProgress: () => {},
  onWake: () => {},
};
const loader = new StageLoad(context, {
  broken: (error) => server.broken(error),
  sent: (transfer, piece, ok) => server.sent(transfer, piece, ok),
  offerEnded: (transfer) => server.offerEnded(transfer),
});
const server: StageServer = new StageServer(channel, loader);
await server.ended;
await server.close().catch((error: unknown) => warn(String(error)));
channel.close();
// What still runs belongs to a worker that is gone; what was sent leaves first.
systemTimer.after(LEAVE_MS, () => process.exit());
