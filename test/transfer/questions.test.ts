import { connect, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { systemTimer, type Timer } from "#base";
import {
  type Asking,
  type AskingPeer,
  openAsker,
  openQuestionServer,
  type QuestionServer,
} from "#transfer";

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function serve(
  secrets: readonly string[],
  answer: (question: Uint8Array) => Promise<Uint8Array> = async (question) =>
    Buffer.concat([Buffer.from("re:"), question]),
): Promise<QuestionServer> {
  const server = await openQuestionServer({ secrets, answer });
  opened.push(server);
  return server;
}

/** Sends bytes, and settles with what came back when the connection is closed. */
function sendRaw(port: number, bytes: Uint8Array, end = false): Promise<Buffer> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(bytes);
      if (end) socket.end();
    });
    socket.on("data", (part) => parts.push(part));
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(parts)));
  });
}

/** One question of a process that asks no other. */
async function askPeer(
  peer: { readonly host: string; readonly port: number },
  question: Uint8Array,
  { secret, ...how }: Asking & { readonly secret: string },
): Promise<Uint8Array> {
  const asker = openAsker({ secret });
  return await asker.ask(peer, question, how).finally(() => asker.close());
}

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const ask = (server: { address: { host: string; port: number } }, secret: string, body = "hello") =>
  askPeer(server.address, Buffer.from(body), { secret, deadlineMs: 3000 });

describe("connections of questions", () => {
  const how = { deadlineMs: 3000 };
  const hello = Buffer.from("hello");

  test("[TR63] are kept for further questions, and show the secret once", async () => {
    const server = await serve(["s1"]);
    const asker = openAsker({ secret: "s1" });
    opened.push(asker);
    for (let round = 0; round < 3; round++) {
      expect(text(await asker.ask(server.address, hello, how))).toBe("re:hello");
      expect([server.connections, asker.kept]).toEqual([1, 1]);
    }
    const many = Array.from({ length: 9 }, () => asker.ask(server.address, hello, how));
    expect((await Promise.all(many)).map(text)).toEqual(Array(9).fill("re:hello"));
    expect(asker.kept).toBe(4);
    await expect.poll(() => server.connections).toBe(4);
    asker.close();
    await expect.poll(() => server.connections).toBe(0);
  });

  test("[TR63] that the other side ended are opened anew", async () => {
    const first = await openQuestionServer({ secrets: [], answer: async () => Buffer.from("1") });
    const asker = openAsker({ secret: "" });
    opened.push(asker);
    expect(text(await asker.ask(first.address, hello, how))).toBe("1");
    await first.close();
    const { port } = first.address;
    const again = { port, secrets: [], answer: async () => Buffer.from("2") };
    opened.push(await openQuestionServer(again));
    expect(text(await asker.ask(first.address, hello, how))).toBe("2");
  });

  test("[TR63] leave no timer behind, which would keep the process alive", async () => {
    let running = 0;
    const timer: Timer = {
      after(ms, run) {
        running++;
        let stop = () => {
          running--;
          stop = () => {};
        };
        const cancel = systemTimer.after(ms, () => {
          stop();
          run();
        });
        return () => {
          cancel();
          stop();
        };
      },
    };
    const asked = async (server: QuestionServer) => {
      const asker = openAsker({ secret: "", timer });
      opened.push(asker);
      await Promise.all(Array.from({ length: 3 }, () => asker.ask(server.address, hello, how)));
      expect([asker.kept, running]).toEqual([3, 3]);
      return asker;
    };
    const server = await serve([]);
    (await asked(server)).close();
    expect(running).toBe(0);
    const ended = await asked(server);
    await server.close();
    await expect.poll(() => [ended.kept, running]).toEqual([0, 0]);
  });

  test("[TR91] tell who answers of their end, once, whenever it is asked for", async () => {
    const told: string[] = [];
    const peers: AskingPeer[] = [];
    const server = await openQuestionServer({
      secrets: [],
      answer: async (question, from) => {
        peers.push(from);
        from.onGone(() => told.push(text(question)));
        from.onGone(() => told.push("never"))();
        return question;
      },
    });
    opened.push(server);
    const asker = openAsker({ secret: "" });
    for (const word of ["one", "two"]) await asker.ask(server.address, Buffer.from(word), how);
    expect([told, peers[0]?.isGone]).toEqual([[], false]);
    asker.close();
    await expect.poll(() => told).toEqual(["one", "two"]);
    peers[1]?.onGone(() => told.push("late"));
    expect([told.at(-1), peers[0]?.isGone]).toEqual(["late", true]);
  });

  test("[TR63] whose question was given up are not used again", async () => {
    let silent = true;
    const server = await serve([], async (question) => {
      if (silent) await new Promise((resolve) => setTimeout(resolve, 200));
      return question;
    });
    const asker = openAsker({ secret: "" });
    opened.push(asker);
    const late = asker.ask(server.address, Buffer.from("first"), { deadlineMs: 50 });
    await expect(late).rejects.toMatchObject({ code: "timed_out" });
    expect(asker.kept).toBe(0);
    silent = false;
    expect(text(await asker.ask(server.address, Buffer.from("second"), how))).toBe("second");
  });

  test("[TR63] without a question make room for others", async () => {
    const server = await serve([]);
    const askers = Array.from({ length: 1030 }, () => openAsker({ secret: "" }));
    opened.push(...askers);
    for (const asker of askers) await asker.ask(server.address, hello, how);
    expect(server.connections).toBeLessThanOrEqual(1024);
  });
});

describe("questions", () => {
  test("[TR60] are answered between processes that know one secret, or none", async () => {
    expect(text(await ask(await serve(["s1", "s2"]), "s2"))).toBe("re:hello");
    expect(text(await ask(await serve([]), ""))).toBe("re:hello");
    const long = "x".repeat(3_000_000);
    const server = await serve(["s1"], async (question) => Buffer.from(`${question.length}`));
    expect(text(await ask(server, "s1", long))).toBe("3000000");
  });

  test("[TR60] of one that does not know it are not read", async () => {
    let asked = 0;
    const server = await serve(["s1"], async (question) => {
      asked++;
      return question;
    });
    for (const secret of ["", "s2"]) {
      await expect(ask(server, secret)).rejects.toMatchObject({ code: "closed" });
    }
    expect(asked).toBe(0);
  });

  test("[TR61] are not told to a listener that does not know the secret", async () => {
    const heard: Buffer[] = [];
    const liar = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (part) => heard.push(part));
      socket.write(Buffer.alloc(64, 7));
    });
    await new Promise<void>((resolve) => liar.listen(0, "127.0.0.1", resolve));
    opened.push(liar);
    const { port } = liar.address() as { port: number };
    const peer = { address: { host: "127.0.0.1", port } };
    await expect(ask(peer, "s1", "a secret prompt")).rejects.toMatchObject({ code: "refused" });
    expect(Buffer.concat(heard).includes("a secret prompt")).toBe(false);
  });

  test("[TR61] without a secret go to this machine only, and come from it", async () => {
    const peer = { host: "192.0.2.1", port: 9 };
    await expect(
      askPeer(peer, Buffer.from("x"), { secret: "", deadlineMs: 3000 }),
    ).rejects.toMatchObject({ code: "refused" });
    const open = openQuestionServer({ host: "0.0.0.0", secrets: [], answer: async (q) => q });
    await expect(open).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("[TR61] recorded and sent again are not answered", async () => {
    const server = await serve(["s1"]);
    const said: Buffer[] = [];
    const between = createServer((client) => {
      const socket: Socket = connect(server.address.port, "127.0.0.1");
      client.on("error", () => {});
      socket.on("error", () => {});
      client.on("data", (part) => said.push(part));
      client.pipe(socket);
      socket.pipe(client);
    });
    await new Promise<void>((resolve) => between.listen(0, "127.0.0.1", resolve));
    opened.push(between);
    const { port } = between.address() as { port: number };
    expect(text(await ask({ address: { host: "127.0.0.1", port } }, "s1"))).toBe("re:hello");
    const answer = await sendRaw(server.address.port, Buffer.concat(said));
    expect(answer.includes("re:")).toBe(false);
  });

  test("[TR62] are bounded in time: no answer, no connection, a signal", async () => {
    const silent = await serve(["s1"], () => new Promise<Uint8Array>(() => {}));
    const late = askPeer(silent.address, Buffer.from("x"), { secret: "s1", deadlineMs: 100 });
    await expect(late).rejects.toMatchObject({ code: "timed_out" });
    const nowhere = { host: "127.0.0.1", port: 1 };
    const refused = askPeer(nowhere, Buffer.from("x"), { secret: "s1", deadlineMs: 1000 });
    await expect(refused).rejects.toMatchObject({ code: "closed" });
    const stop = new AbortController();
    const how = { secret: "s1", deadlineMs: 10_000, signal: stop.signal };
    const aborted = askPeer(silent.address, Buffer.from("x"), how);
    setTimeout(() => stop.abort(new Error("enough")), 50);
    await expect(aborted).rejects.toThrow("enough");
  });

  test("[TR62] whose answer fails end alone", async () => {
    let fails = true;
    const server = await serve(["s1"], async (question) => {
      if (fails) throw new Error("a bug");
      return question;
    });
    await expect(ask(server, "s1")).rejects.toMatchObject({ code: "closed" });
    fails = false;
    expect(text(await ask(server, "s1"))).toBe("hello");
  });

  test("[TR62] of strangers that are garbage end alone, and hold nothing", async () => {
    const server = await serve(["s1"]);
    let state = 3;
    const next = () => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return state;
    };
    const rounds = process.env.PERIGEE_FULL === undefined ? 300 : 10_000;
    for (let round = 0; round < rounds; round += 50) {
      await Promise.all(
        Array.from({ length: 50 }, () => {
          const bytes = Buffer.alloc(next() % 200, next() % 256);
          if (next() % 2 === 0) bytes.write("PGQ2");
          return sendRaw(server.address.port, bytes, true);
        }),
      );
    }
    expect(server.connections).toBe(0);
    expect(text(await ask(server, "s1"))).toBe("re:hello");
  });
});
