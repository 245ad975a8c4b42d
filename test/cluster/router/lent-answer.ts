import { once } from "node:events";
import { createServer as createHttp, get, type IncomingMessage } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { Attempt, type Outcome } from "../../../src/cluster/router/attempt.ts";
import { CircuitBreaker } from "../../../src/cluster/router/breaker.ts";
import { ClientStream } from "../../../src/cluster/router/client-stream.ts";
import { MarkerReader } from "../../../src/cluster/router/marker-reader.ts";
import type { NativeRelay } from "../../../src/cluster/router/native-relay.ts";
import type { RelayedBy } from "../../../src/cluster/router/relay-metrics.ts";
import { LineReader } from "../../../src/cluster/router/stream-reader.ts";
import { Sweep } from "../../../src/cluster/router/sweep.ts";
import { Upstream } from "../../../src/cluster/router/upstream.ts";
import type { WorkerLink } from "../../../src/cluster/router/worker-link.ts";
import type { GapWatch } from "../../../src/cluster/routing/index.ts";

export const HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
export const END = "0\r\n\r\n";

export const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
export const pause = (ms: number) => new Promise<void>((go) => setTimeout(go, ms));

/** An event of one token, as a worker with markers writes it. */
export const event = (id: number, choice = 0) =>
  `data: {"choices":[{"index":${choice},"delta":{"content":"token ${id}"}}]}\n\n: t ${choice} ${id}\n\n`;

export async function until(is: () => boolean, what: string, msMax = 5000): Promise<void> {
  const endMs = performance.now() + msMax;
  while (!is()) {
    if (performance.now() > endMs) throw new Error(`not within ${msMax} ms: ${what}`);
    await pause(1);
  }
}

export interface Script {
  /** What the worker does once it is asked. */
  readonly play: (worker: Socket, script: Playing) => Promise<void>;
  readonly native: NativeRelay | null;
  /** How times between tokens count; none: they do not. */
  readonly gaps?: GapWatch;
  /** 0: a stream without markers. */
  readonly choices?: number;
  readonly tokenTimeoutMs?: number;
  readonly answerBytesMax?: number;
  /** Does something with the client's answer; else it is read. */
  readonly client?: (answer: IncomingMessage) => void;
  readonly onTokens?: (told: ToldTokens) => void;
  /** The answer's other side, at the router. */
  readonly onStart?: (parts: { attempt: Attempt; client: ClientStream }) => void;
}

export interface ToldTokens {
  readonly count: number;
  readonly by: RelayedBy;
  readonly agoMs: number;
}

export interface Playing {
  /** As many events of one token as are read by JavaScript before an answer is lent. */
  begin(): Promise<void>;
}

export interface Relayed {
  readonly body: string;
  readonly outcome: Outcome;
  readonly tokens: number;
  /** Of each choice. */
  readonly ids: readonly string[];
  /** The worker saw the end of its connection. */
  readonly workerClosed: Promise<unknown>;
}

const closers: (() => unknown)[] = [];

export async function closeAll(): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** One answer through an attempt, with real connections on both sides. */
export async function relayed(script: Script): Promise<Relayed> {
  const { native, choices = 1 } = script;
  let closed: (value: unknown) => void = () => {};
  const workerClosed = new Promise((resolve) => {
    closed = resolve;
  });
  const port = await listen(
    createServer((socket) => {
      socket.setNoDelay(true).on("error", () => {});
      socket.once("close", closed);
      socket.once("data", () => void script.play(socket, playing(socket, native, choices)));
      closers.push(() => socket.destroy());
    }),
  );
  const upstream = new Upstream(`http://127.0.0.1:${port}`, {
    ...{ connectTimeoutMs: 1000, answerBytesMax: script.answerBytesMax ?? 2 ** 26, ca: null },
  });
  closers.push(() => upstream.close());
  const sweep = new Sweep(200);
  closers.push(() => sweep.close());
  const reader = choices === 0 ? new LineReader() : new MarkerReader(choices);
  let tokens = 0;
  let outcome: Promise<Outcome> | null = null;
  const front = createHttp((_request, response) => {
    const client = new ClientStream(response);
    const { tokenTimeoutMs = 5000 } = script;
    const limits = { tokenTimeoutMs, firstTokenTimeoutMs: 5000, answerTimeoutMs: 5000 };
    const attempt = new Attempt({
      ...{ link: linkTo(upstream), path: "/", headers: {}, body: "{}" },
      ...{ reader, client, limits, sweep, native, gaps: script.gaps ?? null, passOn: () => {} },
      onBegin: () => client.begin({}),
      onTokens: (count, by, agoMs) => {
        tokens += count;
        script.onTokens?.({ count, by, agoMs });
      },
    });
    response.once("close", () => attempt.cancel());
    script.onStart?.({ attempt, client });
    outcome = attempt.run();
    void outcome.then(() => client.end());
  });
  const own = await listen(front);
  closers.push(() => front.closeAllConnections());
  const answer = await asked(own);
  const body = script.client === undefined ? await textOf(answer) : "";
  script.client?.(answer);
  await until(() => outcome !== null, "an attempt");
  const end = await (outcome as unknown as Promise<Outcome>);
  const ids = reader instanceof MarkerReader ? reader.choices.map((choice) => choice.ids) : [];
  return { body, outcome: end, tokens, ids, workerClosed };
}

function linkTo(upstream: Upstream): WorkerLink {
  const clock = { nowMs: () => performance.now() };
  const breaker = new CircuitBreaker({ clock, failuresMax: 3, openMs: 1000 });
  return { info: { id: "one" }, upstream, breaker, headers: {} } as unknown as WorkerLink;
}

function playing(worker: Socket, native: NativeRelay | null, choices: number): Playing {
  return {
    begin: async () => {
      worker.write(HEAD + chunk(choices === 0 ? ": hello\n\n" : ": p 0 10 0\n\n"));
      const before = native?.loanCount ?? 0;
      for (let id = 0; id < 8 && (native?.loanCount ?? 0) === before; id++) {
        worker.write(chunk(choices === 0 ? `data: ${id}\n\n` : event(id)));
        await pause(5);
      }
      if (native !== null) await until(() => native.loanCount === before + 1, "a loan");
    },
  };
}

async function asked(port: number): Promise<IncomingMessage> {
  const sent = get({ port, host: "127.0.0.1", agent: false });
  sent.on("error", () => {});
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.on("error", () => {});
  closers.push(() => answer.destroy());
  return answer;
}

export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  answer.setEncoding("latin1").on("data", (part) => {
    text += part;
  });
  await new Promise((resolve) => answer.once("close", resolve));
  return text;
}
