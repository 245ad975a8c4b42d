/** Chats in the server's process whose tools are hostile, beside ordinary streams. */
import { type ChildProcess, fork } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { full, sized } from "../support/full.ts";
import { json } from "../support/json.ts";
import { killAtExit } from "../support/kill-at-exit.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";

/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const PAUSE_RUNS = 5;
const ANSWER_MS = 120_000;
/** What the model is told at most, in UTF-16 units. */
const RESULT_MAX = 1_000_000;
const ERROR_MAX = 1_100;

interface Verdict {
  readonly name: string;
  /** `ok`, an `ErrorCode`, `aborted`, or what was thrown instead. */
  readonly code: string;
  readonly outcome: {
    /** Of each call: whether it failed, and the length of what the model is told. */
    readonly told?: readonly (readonly [boolean, number])[];
    readonly rounds?: number;
  } | null;
  readonly problems: readonly string[];
}

interface Begun {
  readonly url: string;
  readonly cases: readonly string[];
}

/** The code of each case that is none of `ok`, and what its call came to. */
const EXPECTED: Readonly<Record<string, string>> = {
  "never returns": "aborted",
  "a thenable that never calls": "aborted",
  "chats within chats, without end": "aborted",
  "a huge text": "PROMPT_TOO_LONG",
  "a hundred thousand tools": "INVALID_ARGUMENT",
  "128 tools with long schemas": "INVALID_ARGUMENT",
  "128 tools with long names": "PROMPT_TOO_LONG",
};
const FAILING = [
  ...["a thenable that throws", "throws a huge error", "throws a huge text", "throws nothing"],
  ...["throws what has no text", "throws a symbol", "throws a proxy", "a huge text within"],
  ...["huge bytes", "huge bytes within", "a list of a billion", "a million values"],
  ...["many paths to one value", "a deep value", "a circle", "a bigint", "a getter that throws"],
  "toJSON that throws",
];

/** Four times as many sequences as have seats: streams share the steps, as with any requests. */
const LOAD = "a hundred chats at a time";

function expectedCode(name: string): string {
  const isName = /^a tool named "/.test(name);
  return EXPECTED[name] ?? (isName ? "INVALID_ARGUMENT" : "ok");
}

function next<Message>(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer in time")), ANSWER_MS);
    const onExit = () => reject(new Error("the process has ended"));
    child.once("exit", onExit);
    child.once("message", (message) => {
      clearTimeout(timer);
      child.off("exit", onExit);
      resolve(message as Message); // what chat-process.mjs sends
    });
  });
}

function problemOf({ name, code, outcome, problems }: Verdict): string | null {
  if (problems.length > 0) return `${name}: ${problems}`;
  if (code !== expectedCode(name)) return `${name}: ${code} instead of ${expectedCode(name)}`;
  if (name.includes("alternatives")) return null; // whether it is called is the model's choice
  for (const [isError, length] of outcome?.told ?? []) {
    if (isError !== FAILING.includes(name)) return `${name}: told as ${isError ? "" : "no "}error`;
    if (length > (isError ? ERROR_MAX : RESULT_MAX)) return `${name}: told ${length} characters`;
  }
  const isTold = code !== "ok" || name.includes("hundred") || (outcome?.told ?? []).length > 0;
  return isTold ? null : `${name}: no call was run`;
}

test("hostile tools of a chat cost its own chat alone, and no other request pauses", {
  timeout: sized(6, 30) * 60_000,
}, async () => {
  const child = fork("test/hostile/chat-process.mjs", [], { execArgv: [] });
  killAtExit(child);
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const { url, cases } = await next<Begun>(child);
  const streams = await OrdinaryStreams.start(url);
  onTestFinished(() => streams.kill());
  const problems: string[] = [];
  const measured = async (name: string): Promise<number> => {
    const window = streams.openWindow();
    const answer = next<Verdict>(child);
    child.send({ name });
    const problem = problemOf(await answer);
    if (problem !== null) problems.push(problem);
    return await streams.closeWindow(window);
  };
  const suspects: string[] = [];
  for (const name of cases) {
    const pauseMs = await measured(name);
    if (pauseMs > PAUSE_MS_MAX && name !== LOAD) suspects.push(name);
  }
  expect(problems).toEqual([]);
  const slow: string[] = [];
  for (const name of suspects) {
    const pauses: number[] = [];
    for (let run = 0; run < PAUSE_RUNS; run++) pauses.push(await measured(name));
    const median = pauses.sort((a, b) => a - b)[PAUSE_RUNS >> 1] ?? 0;
    if (median > PAUSE_MS_MAX) slow.push(`${name}: ${median} ms`);
  }
  expect(slow).toEqual([]);
  expect(streams.problems).toEqual([]);
  await streams.stop();
  const held = async () => (await json(fetch(`${url}/server_info`))).stats?.heldBlocks;
  await expect.poll(held, { timeout: 30_000, interval: 100 }).toBe(0);
});
