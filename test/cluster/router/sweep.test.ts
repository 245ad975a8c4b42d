import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { Sweep } from "../../../src/cluster/router/sweep.ts";

/** The process does nothing else, as in a long computation. */
function busy(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test("[CL147] what came while the process was busy is read before deadlines are looked at", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const reader = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [writer] = (await once(server, "connection")) as [Socket];
  const limitMs = 100;
  let progressMs = performance.now();
  let late = 0;
  let looks = 0;
  reader.on("data", () => {
    progressMs = performance.now();
  });
  const sweep = new Sweep(limitMs);
  sweep.add({
    look: (nowMs) => {
      looks++;
      if (nowMs - progressMs > limitMs) late++;
    },
  });
  try {
    for (let turn = 0; turn < 10; turn++) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      writer.write("token");
      busy(3 * limitMs);
    }
    await expect.poll(() => looks).toBeGreaterThan(5);
    expect(late).toBe(0);
  } finally {
    sweep.close();
    writer.destroy();
    reader.destroy();
    server.close();
  }
});
