import { readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Attempt } from "../../../src/cluster/router/attempt.ts";
import type { ClientStream } from "../../../src/cluster/router/client-stream.ts";
import { NativeRelay } from "../../../src/cluster/router/native-relay.ts";
import {
  chunk,
  closeAll,
  END,
  event,
  HEAD,
  pause,
  type Relayed,
  relayed,
  type Script,
  type ToldTokens,
  textOf,
  until,
} from "./lent-answer.ts";

const BOUNDS_MS = [20, 100, 1000];

const opened: NativeRelay[] = [];
afterEach(async () => {
  await closeAll();
  for (const native of opened.splice(0)) native.close();
});

/** Other systems have none: there JavaScript relays everything. */
const hasNative = (() => {
  const native = NativeRelay.open(BOUNDS_MS);
  native?.close();
  return native !== null;
})();

function open(): NativeRelay {
  const native = NativeRelay.open(BOUNDS_MS);
  if (native === null) throw new Error("no native relay");
  opened.push(native);
  return native;
}

const LAST = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n';
const DONE = "data: [DONE]\n\n";

function tokensOf({ body }: Relayed): string[] {
  return [...body.matchAll(/token (\d+)/g)].map(([, id = ""]) => id);
}

function random(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A right answer of several choices, with much that is not plain. */
function answerOf(seed: number, choices: number): string {
  const draw = random(seed);
  const live = new Set(Array.from({ length: choices }, (_, choice) => choice));
  let bytes = "";
  for (let id = 100; live.size > 0; id++) {
    const choice = [...live][draw(live.size)] ?? 0;
    const whole = event(id, choice);
    const kind = id < 130 ? 0 : draw(24);
    if (kind === 1) bytes += chunk(": keep-alive\n\n");
    if (kind === 2) bytes += chunk(whole + event(++id, choice));
    else if (kind === 3) bytes += chunk(whole.slice(0, 30)) + chunk(whole.slice(30));
    else if (kind === 4) bytes += chunk(whole.replace(/: t (\d+) .*/, ": t $1 -"));
    else if (kind === 5) bytes += chunk(whole.replace(/: t (\d+) .*/, `: t $1 ${id},7,${id}`));
    else if (kind === 6)
      bytes += chunk(`data: "${"x".repeat(draw(90_000))}"\n\n${event(id, choice)}`);
    else if (kind === 7) bytes += `${chunk(whole).replace("\r\n", ";a=1\r\n")}`;
    else if (kind === 8 && id > 200) {
      bytes += chunk(whole.replace(/\n\n$/, " end\n\n"));
      live.delete(choice);
    } else bytes += chunk(whole);
  }
  return bytes + chunk(LAST) + chunk(DONE) + END;
}

/** Up to 4,000 bytes at a time, so that reads begin and end anywhere. */
async function write(bytes: string, seed: number, to: { write(bytes: string): boolean }) {
  const draw = random(seed + 1);
  for (let at = 0; at < bytes.length; ) {
    const next = at + 1 + (draw(3) === 0 ? draw(4000) : draw(200));
    to.write(Buffer.from(bytes.slice(at, next), "latin1") as unknown as string);
    at = next;
    if (draw(2) === 0) await pause(0);
  }
}

test.runIf(hasNative).for([1, 2, 3, 4, 5, 6])(
  "[CL195] however answers are cut, lent ones are those that are not (seed %i)",
  async (seed) => {
    const choices = 1 + (seed % 3);
    const bytes = answerOf(seed, choices);
    const native = open();
    let loans = 0;
    const one = (lender: NativeRelay | null) =>
      relayed({
        ...{ native: lender, choices },
        play: async (worker, { begin }) => {
          await begin();
          loans = native.loanCount;
          await write(bytes, seed, worker);
        },
      });
    const lent = await one(native);
    expect(loans).toBe(1);
    const plain = await one(null);
    const own = (text: string) => text.slice(text.indexOf("token 100"));
    expect(lent.outcome.kind).toBe("streamed");
    expect(own(lent.body) === own(plain.body)).toBe(true);
    expect(lent.body).not.toContain(": t ");
    for (let choice = 0; choice < choices; choice++) {
      const idsOf = ({ ids }: Relayed) => ids[choice]?.replace(/^(\d,)*/, "");
      expect(idsOf(lent)).toBe(idsOf(plain));
    }
    expect(lent.tokens).toBe(lent.ids.join().split(",").length);
    expect(native.loanCount).toBe(0);
  },
);

test.runIf(hasNative)("[CL195] lines of servers without markers are lent, too", async () => {
  const native = open();
  const { body, outcome, tokens } = await relayed({
    ...{ native, choices: 0 },
    play: async (worker, { begin }) => {
      await begin();
      for (let at = 0; at < 50; at++) {
        worker.write(chunk(`data: token ${at}\n\n`));
        if (at % 7 === 0) worker.write(chunk(": comment\n\n"));
        await pause(1);
      }
      expect(native.loanCount).toBe(1);
      worker.write(chunk(DONE) + END);
    },
  });
  expect(outcome.kind).toBe("streamed");
  expect(body.endsWith(`token 49\n\n: comment\n\n${DONE}`)).toBe(true);
  expect(tokens).toBe(body.split("\ndata: ").length - 2); // but for the end
});

test("[CL261] text whose marker came in one piece with a broken one reaches the client", async () => {
  const { body, outcome, ids, tokens } = await relayed({
    native: null,
    play: async (worker, { begin }) => {
      await begin();
      worker.write(chunk(`${event(40)}${event(41)}data: lost\n\n: t 0 x end\n\n`));
      await pause(20);
    },
  });
  expect(outcome).toMatchObject({ kind: "failed" });
  expect(body.endsWith(`${event(40)}${event(41)}`.replace(/: t .*\n\n/g, ""))).toBe(true);
  expect(ids.join()).toMatch(/,40,41$/);
  expect(tokens).toBe(ids.join().split(",").length);
});

const BROKEN: readonly (readonly [string, string])[] = [
  ["zz\r\n", "HTTP"],
  ["5\r\nhello!!", "HTTP"],
  ["fffffffff\r\n", "HTTP"],
  ["-1\r\n", "HTTP"],
  [chunk(`${event(50)}: t 9 4\n\n`), "unknown choice"],
  [chunk(`${event(50)}: t 0 x\n\n`), "without token ids"],
  [chunk(`${event(50)}: t 0 1,,2\n\n`), "without token ids"],
  [chunk(`${event(50)}: t 0 1234567890\n\n`), "without token ids"],
  [chunk(`${event(50)}: p 0 -4 x\n\n`), "no prompt"],
  [chunk('data: {"error":{"message":"no memory"}}\n\n'), "no memory"],
  ["", "ended early"],
];

test.runIf(hasNative).for(BROKEN)(
  "[CL199] what breaks the form of a lent answer ends it, and no other: %j",
  async ([bytes, reason]) => {
    const native = open();
    const other = relayed({
      native: null,
      play: async (worker, { begin }) => {
        await begin();
        await pause(100);
        worker.end(chunk(`${event(9).replace(/\n\n$/, " end\n\n")}`) + chunk(DONE) + END);
      },
    });
    const { outcome, body } = await relayed({
      ...{ native, tokenTimeoutMs: 1000 },
      play: async (worker, { begin }) => {
        await begin();
        worker.write(chunk(event(40)) + chunk(event(41)));
        await pause(5);
        expect(native.loanCount).toBe(1);
        if (bytes === "") worker.end(END);
        else worker.write(bytes);
      },
    });
    expect(outcome).toMatchObject({ kind: "failed", isConnectFailure: false });
    const message = outcome.kind === "failed" ? outcome.error.message : "";
    if (reason !== "HTTP") expect(message).toContain(reason);
    expect(body).toContain("token 41");
    expect(body).not.toContain(": t ");
    expect(native.loanCount).toBe(0);
    expect((await other).outcome.kind).toBe("streamed");
  },
);

test.runIf(hasNative)("[CL199] a lent answer has its limit of bytes", async () => {
  const { outcome, body } = await relayed({
    ...{ native: open(), answerBytesMax: 20_000 },
    play: async (worker, { begin }) => {
      await begin();
      for (let id = 0; !worker.destroyed; id++) {
        worker.write(chunk(event(id)));
        if (id % 50 === 0) await pause(1);
      }
    },
  });
  expect(outcome).toMatchObject({ kind: "failed" });
  expect(outcome.kind === "failed" && outcome.error.message).toContain("at most 20000 bytes");
  expect(body.length).toBeLessThan(20_000);
});

test.runIf(hasNative)(
  "[CL197] a worker that dies has left all its tokens and no half event",
  async () => {
    const native = open();
    for (const isReset of [false, true]) {
      const result = await relayed({
        native,
        play: async (worker, { begin }) => {
          await begin();
          for (let id = 100; id < 140; id++) worker.write(chunk(event(id)));
          worker.write(chunk(event(140)).slice(0, 60));
          await pause(20);
          if (isReset) worker.resetAndDestroy();
          else worker.destroy();
        },
      });
      expect(result.outcome).toMatchObject({ kind: "failed", isSaid: false });
      expect(result.ids).toEqual([tokensOf(result).join()]);
      expect(result.tokens).toBe(tokensOf(result).length);
      expect(tokensOf(result).at(-1)).toBe("139");
    }
  },
);

test.runIf(hasNative)("[CL197] an end that comes with a token is told with it", async () => {
  const { outcome, ids } = await relayed({
    native: open(),
    play: async (worker, { begin }) => {
      await begin();
      await pause(20);
      // The second one waits for an acknowledgement, and leaves with the end of the connection.
      worker.setNoDelay(false);
      worker.write(chunk(event(100)));
      worker.end(chunk(event(101)));
    },
  });
  expect(outcome).toMatchObject({ kind: "failed", error: { code: "WORKER_FAILED" } });
  expect(ids.join().endsWith(",100,101")).toBe(true);
});

test.runIf(hasNative)(
  "[CL197] a worker that falls silent is left within its deadline",
  async () => {
    let silentMs = 0;
    const result = await relayed({
      ...{ native: open(), tokenTimeoutMs: 300 },
      play: async (worker, { begin }) => {
        await begin();
        // Longer than the deadline, since tokens come.
        for (let id = 100; id < 115; id++) {
          worker.write(chunk(event(id)));
          await pause(40);
        }
        silentMs = performance.now();
      },
    });
    expect(result.outcome).toMatchObject({ kind: "failed", error: { code: "WORKER_TIMEOUT" } });
    expect(result.ids).toEqual([tokensOf(result).join()]);
    expect(tokensOf(result).at(-1)).toBe("114");
    expect(performance.now() - silentMs).toBeLessThan(2000);
  },
);

test.runIf(hasNative)(
  "[CL196] a client that reads nothing holds up its worker, and gets all",
  async () => {
    const native = open();
    const big = (id: number) => chunk(`data: "${"y".repeat(30_000)}"\n\n${event(id)}`);
    let held = 0;
    let reader: IncomingMessage | null = null;
    const body: { text: Promise<string> } = { text: Promise.resolve("") };
    const result = await relayed({
      native,
      client: (answer) => {
        reader = answer;
        body.text = pause(600).then(() => textOf(answer));
      },
      play: async (worker, { begin }) => {
        await begin();
        for (let id = 100; id < 1100; id++) worker.write(big(id));
        await pause(300);
        held = worker.writableLength;
        worker.write(chunk(event(1100).replace(/\n\n$/, " end\n\n")) + chunk(DONE) + END);
      },
    });
    expect(reader).not.toBeNull();
    expect(held).toBeGreaterThan(10 * 2 ** 20);
    expect(result.outcome.kind).toBe("streamed");
    const text = await body.text;
    const ids = tokensOf({ ...result, body: text }).filter((id) => Number(id) >= 100);
    expect(ids).toEqual(Array.from({ length: 1001 }, (_, at) => `${at + 100}`));
    expect(text.endsWith(DONE)).toBe(true);
  },
);

test.runIf(hasNative)(
  "[CL196] a client that goes ends its worker's connection at once",
  async () => {
    const native = open();
    let client: IncomingMessage | null = null;
    const result = await relayed({
      native,
      client: (answer) => {
        client = answer.on("data", () => {});
      },
      play: async (worker, { begin }) => {
        await begin();
        worker.write(chunk(event(100)));
        await pause(20);
        expect(native.loanCount).toBe(1);
        (client as IncomingMessage | null)?.destroy();
      },
    });
    expect(result.outcome.kind).toBe("cancelled");
    const late = pause(2000).then(() => "late");
    expect(await Promise.race([result.workerClosed, late])).not.toBe("late");
    expect(native.loanCount).toBe(0);
  },
);

test.runIf(hasNative)(
  "[CL196] comments come between events, and the answer is lent again",
  async () => {
    const native = open();
    let parts: { attempt: Attempt; client: ClientStream } | null = null;
    const { body, outcome } = await relayed({
      native,
      onStart: (own) => {
        parts = own;
      },
      play: async (worker, { begin }) => {
        await begin();
        for (let id = 100; id < 160; id++) {
          worker.write(chunk(event(id)));
          await pause(2);
          if (id % 20 !== 0) continue;
          await until(() => native.loanCount === 1, "a loan");
          const { attempt, client } = parts as unknown as {
            attempt: Attempt;
            client: ClientStream;
          };
          attempt.takeBack();
          expect(native.loanCount).toBe(0);
          client.keepAlive(performance.now());
        }
        worker.write(chunk(event(160).replace(/\n\n$/, " end\n\n")) + chunk(DONE) + END);
      },
    });
    expect(outcome.kind).toBe("streamed");
    const events = body.split("\n\n").filter((each) => each !== "");
    expect(events.filter((each) => each === ": keep-alive")).toHaveLength(3);
    expect(events.every((each) => /^(data: .*|: keep-alive|: hello)$/.test(each))).toBe(true);
    expect(body.match(/token 1\d\d/g)).toHaveLength(61);
  },
);

test.runIf(hasNative)("[CL198] what is closed leaves no thread and no descriptor", async () => {
  const threads = () =>
    readdirSync("/proc/self/task").filter((task) => {
      return readFileSync(`/proc/self/task/${task}/comm`, "utf8").startsWith("perigee-relay");
    }).length;
  const descriptors = () => readdirSync("/proc/self/fd").length;
  NativeRelay.open(BOUNDS_MS)?.close();
  await pause(20);
  const before = { threads: threads(), descriptors: descriptors() };
  for (let count = 0; count < 20; count++) {
    const native = open();
    expect(threads()).toBe(before.threads + 1);
    native.close();
    native.close();
    native.drain();
    const lending = { worker: 0, client: 0, form: { choices: 0, live: 0n }, contentBytesMax: 1 };
    const times = { gaps: null, agoMs: 0 };
    expect(native.lend({ ...lending, ...times, onSent: () => {}, onStop: () => {} })).toBeNull();
  }
  await until(() => descriptors() === before.descriptors, "descriptors");
  expect(threads()).toBe(before.threads);
});

test.runIf(hasNative)(
  "[CL198] closing ends loans, and what is no connection is not lent",
  async () => {
    const native = open();
    const form = { choices: 1, live: 1n };
    const times = { gaps: null, agoMs: 0 };
    const none = { form, contentBytesMax: 1, ...times, onSent: () => {}, onStop: () => {} };
    expect(native.lend({ ...none, worker: -1, client: 1 })).toBeNull();
    expect(native.lend({ ...none, worker: 1, client: 99_999 })).toBeNull();
    expect(
      native.lend({ ...none, form: { choices: 65, live: 1n }, worker: 1, client: 1 }),
    ).toBeNull();
    const result = await relayed({
      ...{ native, tokenTimeoutMs: 300 },
      play: async (worker, { begin }) => {
        await begin();
        native.close();
        worker.write(chunk(event(100)));
      },
    });
    expect(result.outcome.kind).toBe("failed");
  },
);

test("[CL198] without the native relay answers are the same", async () => {
  const { body, outcome, ids } = await relayed({
    native: null,
    play: async (worker) => {
      worker.write(HEAD + chunk(": p 0 10 0\n\n"));
      for (let id = 1; id < 30; id++) worker.write(chunk(event(id)));
      worker.write(chunk(event(30).replace(/\n\n$/, " end\n\n")) + chunk(DONE) + END);
    },
  });
  expect(outcome.kind).toBe("streamed");
  expect(ids).toEqual([Array.from({ length: 30 }, (_, at) => at + 1).join()]);
  expect(body).not.toContain(": t ");
});

/** Tokens at these times behind a lent beginning. */
async function paced(pausesMs: readonly number[], script: Partial<Script>) {
  const native = open();
  const told: ToldTokens[] = [];
  const ends: { lentMs: number; endMs: number } = { lentMs: 0, endMs: 0 };
  const result = await relayed({
    ...{ native, onTokens: (one) => told.push(one), ...script },
    play: async (worker, { begin }) => {
      await begin();
      let id = 100;
      ends.lentMs = performance.now();
      for (const ms of pausesMs) {
        await pause(ms);
        worker.write(chunk(event(id++)));
      }
      await pause(30);
      ends.endMs = performance.now();
      // Not plain: JavaScript reads on.
      worker.write(chunk(event(id).replace(/\n\n$/, " end\n\n")) + chunk(LAST + DONE) + END);
    },
  });
  expect(result.outcome.kind).toBe("streamed");
  return { gaps: native.gaps, told, ...ends };
}

test.runIf(hasNative)(
  "[CL266] times between tokens of lent answers are those of the tokens, not of when they are told",
  async () => {
    const { gaps, told, lentMs, endMs } = await paced([5, 5, 5, 150, 5, 5], {
      gaps: { deadlineMs: 100 },
    });
    const { counts, sumMs, met, missed } = gaps;
    expect(counts).toHaveLength(BOUNDS_MS.length + 1);
    // Where the machine is busy, several come at once and are one piece.
    const pieces = counts.reduce((sum, count) => sum + count, 0);
    expect(pieces).toBeGreaterThanOrEqual(2);
    expect(pieces).toBeLessThanOrEqual(6);
    // A busy machine makes a short gap longer, never the long one shorter.
    expect((counts[2] ?? 0) + (counts[3] ?? 0)).toBeGreaterThanOrEqual(1);
    expect([met + missed, missed >= 1]).toEqual([pieces, true]);
    // From the token before the loan to the last one, 30 ms before the end.
    expect(sumMs).toBeGreaterThan(150);
    expect(sumMs).toBeLessThan(endMs - lentMs + 200);
    const native = told.filter(({ by }) => by === "native");
    expect(native.reduce((sum, { count }) => sum + count, 0)).toBe(6);
    expect(native.every(({ agoMs }) => agoMs >= 0)).toBe(true);
  },
);

test.runIf(hasNative)(
  "[CL266] a token at which the thread stops came when the thread read it",
  async () => {
    const told: ToldTokens[] = [];
    await relayed({
      ...{ native: open(), onTokens: (one) => told.push(one), gaps: { deadlineMs: null } },
      play: async (worker, { begin }) => {
        await begin();
        worker.write(chunk(event(100)));
        await pause(20);
        worker.write(chunk(event(101).replace(/\n\n$/, " end\n\n")) + chunk(LAST + DONE) + END);
        // Other work, here as in a router.
        const endMs = performance.now() + 200;
        while (performance.now() < endMs);
      },
    });
    const last = told.at(-1);
    expect(last).toMatchObject({ count: 1, by: "javascript" });
    expect(last?.agoMs).toBeGreaterThan(100);
  },
);

test.runIf(hasNative)(
  "[CL266] of streams told in one look each is told as of its turn",
  async () => {
    const native = open();
    const workers: Socket[] = [];
    const agos: number[] = [];
    const work = (ms: number) => {
      const endMs = performance.now() + ms;
      while (performance.now() < endMs);
    };
    let isTelling = false;
    const stream = () =>
      relayed({
        native,
        onTokens: ({ agoMs }) => {
          if (!isTelling) return;
          agos.push(agoMs);
          work(120);
        },
        play: async (worker, { begin }) => {
          await begin();
          workers.push(worker);
        },
      });
    const streams = [stream()];
    await until(() => workers.length === 1, "a loan");
    streams.push(stream());
    await until(() => workers.length === 2, "another loan");
    // In one turn of the event loop: the thread alone reads meanwhile.
    for (const worker of workers) worker.write(chunk(event(100)));
    work(30);
    isTelling = true;
    native.drain();
    isTelling = false;
    for (const worker of workers) {
      worker.end(chunk(event(101).replace(/\n\n$/, " end\n\n")) + chunk(LAST + DONE) + END);
    }
    await Promise.all(streams);
    expect(agos).toHaveLength(2);
    expect((agos[1] ?? 0) - (agos[0] ?? 0)).toBeGreaterThan(100);
  },
);

test.runIf(hasNative)("[CL266] where gaps have no deadline, or say nothing", async () => {
  const free = await paced([5, 5], { gaps: { deadlineMs: null } });
  expect(free.gaps).toMatchObject({ met: 0, missed: 0 });
  expect(free.gaps.counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
  const { gaps } = await paced([5, 5], {});
  expect(gaps).toEqual({ counts: [0, 0, 0, 0], sumMs: 0, met: 0, missed: 0 });
});

test.runIf(hasNative)("[CL266] a relay that was closed keeps what it counted", async () => {
  const { gaps } = await paced([5, 5], { gaps: { deadlineMs: 60_000 } });
  const [native] = opened.slice(-1);
  native?.close();
  expect(native?.gaps).toEqual(gaps);
  expect(gaps.met).toBeGreaterThan(0);
});
