import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { AnswerBuffer } from "../../../src/cluster/router/answer-buffer.ts";
import { Upstream, type UpstreamReader } from "../../../src/cluster/router/upstream.ts";

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
const CHUNKED = `${HEAD}transfer-encoding: chunked\r\n\r\n`;
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const QUESTION = { method: "GET", path: "/", headers: {}, body: null } as const;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A worker made of `onRequest`, and the connections to it. */
async function worker(
  onRequest: (socket: Socket, count: number) => void,
  onConnect: (socket: Socket) => void = () => {},
): Promise<Upstream> {
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    onConnect(socket);
    socket.on("data", () => onRequest(socket, count++));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const options = { connectTimeoutMs: 1000, answerBytesMax: 2 ** 26, ca: null };
  const upstream = new Upstream(`http://127.0.0.1:${port}`, options);
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  closers.push(() => upstream.close());
  return upstream;
}

/** There is room again, or the connection is gone. */
function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off("drain", done).off("close", done);
      resolve();
    };
    socket.on("drain", done).on("close", done);
  });
}

/** What comes, kept as the router keeps it. */
function asked(upstream: Upstream, onData: (bytes: Buffer) => void = () => {}) {
  const held = new AnswerBuffer({ begin: () => {}, write: () => {} });
  let reader: UpstreamReader | null = null;
  const over = new Promise<string>((resolve) => {
    reader = {
      onHead: () => {},
      onData: (bytes) => {
        held.add(bytes);
        onData(bytes);
      },
      onEnd: () => resolve(held.take().toString("latin1")),
      onFailure: (error) => resolve(`failed: ${error.message}`),
    };
  });
  const call = upstream.send(QUESTION, reader as unknown as UpstreamReader);
  return { call, over };
}

test("[CL170] answers that come in turns on many connections are not mixed up", async () => {
  const upstream = await worker(async (socket, place) => {
    socket.write(CHUNKED);
    for (let piece = 0; piece < 30; piece++) {
      socket.write(chunk(`${place}:${piece};`.repeat(1 + (piece % 3) * 40)));
      await pause(1);
    }
    socket.write("0\r\n\r\n");
  });
  const answers = await Promise.all(Array.from({ length: 20 }, () => asked(upstream).over));
  for (const answer of answers) {
    const place = answer.slice(0, answer.indexOf(":"));
    const wanted = Array.from({ length: 30 }, (_, piece) =>
      `${place}:${piece};`.repeat(1 + (piece % 3) * 40),
    );
    expect(answer).toBe(wanted.join(""));
  }
  expect(new Set(answers).size).toBe(20);
});

test("[CL170] a reader that pauses gets the rest when it goes on, all and in order", async () => {
  const pieces = Array.from({ length: 2000 }, (_, at) => `piece ${at} ${"x".repeat(at % 700)};`);
  const upstream = await worker((socket) => {
    socket.write(CHUNKED);
    for (const piece of pieces) socket.write(chunk(piece));
    socket.write("0\r\n\r\n");
  });
  const other = asked(upstream);
  let pauses = 0;
  const slow = asked(upstream, () => {
    if (pauses++ % 40 !== 0) return;
    slow.call.pause();
    setTimeout(() => slow.call.resume(), pauses % 3);
  });
  expect(await slow.over).toBe(pieces.join(""));
  expect(await other.over).toBe(pieces.join(""));
  expect(pauses).toBeGreaterThan(40);
});

test("[CL170] a reader that pauses holds up its worker", async () => {
  const mebibyte = "y".repeat(2 ** 20);
  let sent: Socket | null = null;
  const upstream = await worker((socket) => {
    sent = socket;
    socket.write(`${HEAD}content-length: ${64 * 2 ** 20}\r\n\r\n`);
    for (let count = 0; count < 64; count++) socket.write(mebibyte);
  });
  let bytes = 0;
  const slow = asked(upstream, (part) => {
    bytes += part.length;
    slow.call.pause();
  });
  await pause(200);
  const before = bytes;
  await pause(200);
  expect(bytes).toBe(before);
  expect((sent as Socket | null)?.writableLength).toBeGreaterThan(2 ** 20);
  slow.call.abort(new Error("enough"));
  expect(await slow.over).toContain("enough");
});

test("[CL170] a connection is used again, also behind a pause in its last bytes", async () => {
  const connections = new Set<Socket>();
  const upstream = await worker((socket, place) => {
    connections.add(socket);
    socket.write(`${HEAD}content-length: 7\r\n\r\nanswer${place}`);
  });
  for (let place = 0; place < 5; place++) {
    const one = asked(upstream, () => {
      one.call.pause();
      setTimeout(() => one.call.resume(), 5);
    });
    expect(await one.over).toBe(`answer${place}`);
    await pause(5);
  }
  expect(connections.size).toBe(1);
});

test("[CL170] a worker that says something before it is asked holds up nothing", async () => {
  let greeted = 0;
  const upstream = await worker(
    (socket) => socket.write(`${HEAD}content-length: 2\r\n\r\nok`),
    (socket) => {
      if (greeted++ < 2) socket.write("220 ready\r\n");
    },
  );
  for (let place = 0; place < 4; place++) {
    const { over } = asked(upstream);
    const late = pause(3000).then(() => "nothing came");
    expect(await Promise.race([over, late])).not.toBe("nothing came");
  }
  expect(await asked(upstream).over).toBe("ok");
});

test("[CL170] an answer that its connection ends is whole, one that is cut is a failure", async () => {
  const upstream = await worker((socket, place) => {
    if (place === 0) socket.end(`${HEAD}connection: close\r\n\r\nall of it`);
    else socket.end(`${HEAD}content-length: 100\r\n\r\nhalf of it`);
  });
  const paused = asked(upstream, () => {
    paused.call.pause();
    setTimeout(() => paused.call.resume(), 20);
  });
  expect(await paused.over).toBe("all of it");
  expect(await asked(upstream).over).toContain("failed: ");
});

test.for([1, 7, 300, 5000])(
  "[CL193] answers in chunks of any cut are whole, and their connection goes on (%i bytes)",
  async (size) => {
    const connections = new Set<Socket>();
    const texts = Array.from({ length: 40 }, (_, at) => `${at}:${"data\r\n0\r\n".repeat(at % 11)}`);
    const upstream = await worker(async (socket, place) => {
      connections.add(socket);
      socket.setNoDelay(true);
      socket.write(CHUNKED);
      await pause(5);
      const trailer = place % 2 === 0 ? "" : "x-end: 1\r\n";
      const bytes = `${texts.map(chunk).join("")}0\r\n${trailer}\r\n`;
      for (let at = 0; at < bytes.length; at += size) {
        socket.write(bytes.slice(at, at + size));
        if (at % 3 === 0) await pause(0);
      }
    });
    for (let count = 0; count < 3; count++) {
      expect(await asked(upstream).over).toBe(texts.join(""));
      await pause(5);
    }
    expect(connections.size).toBe(1);
  },
);

test.for(["zz\r\n", "5;a\r\nhell", "3\r\nhello\r\n", "-5\r\n", "HTTP/1.1 200 OK\r\n\r\n", ""])(
  "[CL193] what breaks the form behind whole chunks ends its answer as a failure: %j",
  async (broken) => {
    const upstream = await worker(async (socket) => {
      socket.write(CHUNKED + chunk("first"));
      await pause(10);
      socket.write(chunk("second"));
      await pause(10);
      socket.end(broken);
    });
    let seen = "";
    const { over } = asked(upstream, (bytes) => {
      seen += bytes.toString("latin1");
    });
    expect(await over).toContain("failed: ");
    expect(seen.startsWith("firstsecond")).toBe(true);
  },
);

test("[CL193] an answer in chunks has its limit, and is ended at once when it is not wanted", async () => {
  let closed = 0;
  const upstream = await worker(async (socket) => {
    socket.on("close", () => closed++);
    socket.write(CHUNKED + chunk("begin"));
    await pause(10);
    const part = chunk("z".repeat(2 ** 20));
    for (let count = 0; count < 80 && !socket.destroyed; count++) {
      if (!socket.write(part)) await drained(socket);
    }
  });
  expect(await asked(upstream).over).toContain(`at most ${2 ** 26} bytes`);
  let parts = 0;
  const ended = asked(upstream, () => {
    if (++parts === 3) ended.call.abort(new Error("enough"));
  });
  expect(await ended.over).toContain("enough");
  await pause(50);
  expect(parts).toBe(3);
  expect(closed).toBe(2);
});
