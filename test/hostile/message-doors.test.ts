/** Hostile requests in Anthropic's and Ollama's form, beside ordinary streams. */
import { expect, onTestFinished, test } from "vitest";
import { Dice } from "../fuzz/dice.ts";
import { FleetProcess } from "../support/fleet-process.ts";
import { eachNth, full, sized } from "../support/full.ts";
import { type Answer, sendBody } from "./case-sender.ts";
import { longText, nested, objectText, repeated } from "./json-text.ts";
import { type DoorForm, MESSAGE_ROUTES, MESSAGE_SLOTS, OWN_BLOCKS } from "./message-values.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { ServedProcess } from "./served-process.ts";
import { textOf, type Value } from "./value-families.ts";

/** Hostile values of each field. */
const VALUES_EACH = sized(1, 12);
/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const PAUSE_RUNS = 5;
const MESSAGE_LENGTH_MAX = 700;

test("every field has hostile values and a place, so that a new field is not forgotten", () => {
  const poor = MESSAGE_SLOTS.filter(
    ({ values, written }) => written === null || (values?.hostile.length ?? 0) < 10,
  );
  expect(poor.map(({ route, field }) => `${route.path} ${field}`)).toEqual([]);
});

test("places stand for fields that are there", () => {
  const known = new Set(MESSAGE_SLOTS.map(({ field }) => field));
  const objects = new Set([...known].map((field) => field.slice(0, field.lastIndexOf("."))));
  const places = MESSAGE_ROUTES.flatMap(({ around }) => Object.keys(around));
  expect(places.filter((place) => !objects.has(place) && place !== "format")).toEqual([]);
  expect(Object.keys(OWN_BLOCKS).filter((field) => !known.has(field))).toEqual([]);
});

interface Case {
  readonly path: string;
  readonly form: DoorForm;
  readonly body: string;
}

/** A hostile value in each field of `slots`, at once or as a stream. */
function* fieldCases(dice: Dice, slots: typeof MESSAGE_SLOTS): Generator<Case> {
  for (const { route, values, written } of slots) {
    const { path, form, streams } = route;
    for (const value of chosen(values?.hostile ?? [], dice)) {
      const [top, json] = written?.(textOf(value)) ?? ["", "null"];
      const stream = { stream: dice.below(2) === 0 ? "true" : "false" };
      const fields = { ...route.body, ...(streams && stream), [top]: json };
      yield { path, form, body: objectText(fields) };
    }
  }
}

function chosen(values: readonly Value[], dice: Dice): readonly Value[] {
  if (values.length <= VALUES_EACH) return values;
  return Array.from({ length: VALUES_EACH }, () => dice.pick(values) ?? "null");
}

/** Bodies that are no requests, or too much of one. */
function* bodyCases(): Generator<Case> {
  for (const { path, form, body } of MESSAGE_ROUTES) {
    const right = objectText(body);
    const bodies = [
      ...["", "{", "[]", "null", '"a"', "1", "{}", "\u0000", `${right}}`, right.slice(0, -1)],
      ...[nested(20_000), repeated("{}", 300_000), `{"model":${"[".repeat(100_000)}`],
      objectText({ ...body, messages: repeated('{"role":"user","content":"a"}', 20_000) }),
      objectText({ ...body, prompt: longText("a cache ", 500_000) }),
      objectText({ ...body, model: longText("m", 100_000) }),
    ];
    for (const text of bodies) yield { path, form, body: text };
  }
}

/**
 * Made one by one: together they are larger than what a test may hold. A router leaves most fields
 * to the server behind it: short runs send it those of every fourth.
 */
function* allCases(way: string): Generator<Case> {
  const slots = way === "a router" ? eachNth(4, MESSAGE_SLOTS) : MESSAGE_SLOTS;
  yield* fieldCases(new Dice(20_261_127), slots);
  yield* bodyCases();
}

/** What is wrong with an answer; null: nothing. */
function problemOf({ form }: Case, { status, headers, text, failure }: Answer): string | null {
  if (failure !== null) return failure;
  if (status === 200) return wholeProblem(String(headers["content-type"] ?? ""), text);
  if (status < 400 || status >= 500 || status === 429) return `${status} ${text.slice(0, 300)}`;
  return messageProblem(form, JSON.parse(text));
}

function wholeProblem(type: string, text: string): string | null {
  if (type.startsWith("text/event-stream")) {
    const last = text.trimEnd().split("\n\n").at(-1) ?? "";
    const isOver = last.startsWith("event: message_stop") || isClientError(last);
    return isOver ? null : `a stream ends with ${last.slice(0, 300)}`;
  }
  if (!type.startsWith("application/x-ndjson")) {
    JSON.parse(text);
    return null;
  }
  const last = JSON.parse(text.trimEnd().split("\n").at(-1) ?? "");
  return last.done === true || typeof last.error === "string" ? null : `ends with ${last}`;
}

/** Of a stream that had begun. */
function isClientError(event: string): boolean {
  return event.startsWith("event: error") && event.includes('"invalid_request_error"');
}

function messageProblem(form: DoorForm, value: Record<string, unknown>): string | null {
  const { error } = value as { error: { type: string; message: string } | string };
  const isShaped =
    form === "ollama"
      ? typeof error === "string"
      : value.type === "error" && typeof error === "object" && typeof error.type === "string";
  if (!isShaped) return `an error of another form: ${JSON.stringify(value).slice(0, 200)}`;
  const message = typeof error === "string" ? error : error.message;
  if (message.length > MESSAGE_LENGTH_MAX) return `${message.length} characters`;
  const hasControl = [...message].some((character) => character < " " || character === "\u007f");
  return hasControl ? `control characters in ${JSON.stringify(message)}` : null;
}

/** The server itself, or a router before it. */
async function doorOf(way: string, server: ServedProcess) {
  if (way === "the server") return { url: server.url, log: [] };
  const flags = ["route", "--port", "0", "--model", "models/pocket"];
  const router = await FleetProcess.start([...flags, "--worker", server.url]);
  onTestFinished(async () => {
    await router.end("SIGKILL");
  });
  return router;
}

test.for(["the server", "a router"])(
  "%s refuses hostile requests in the door's own form",
  {
    timeout: sized(6, 60) * 60_000,
  },
  async (way) => {
    const server = await ServedProcess.start(".");
    onTestFinished(() => server.kill());
    const door = await doorOf(way, server);
    const streams = await OrdinaryStreams.start(server.url);
    onTestFinished(() => streams.kill());
    const problems: string[] = [];
    const suspects: Case[] = [];
    const measured = async (one: Case): Promise<number> => {
      const window = streams.openWindow();
      const problem = problemOf(one, await sendBody(door.url, one.path, one.body));
      if (problem !== null) problems.push(`${one.path} ${one.body.slice(0, 200)} → ${problem}`);
      return await streams.closeWindow(window);
    };
    for (const one of allCases(way)) {
      if ((await measured(one)) > PAUSE_MS_MAX) suspects.push(one);
      if (!server.alive) throw new Error(`${one.body.slice(0, 300)} ended the server`);
    }
    expect(problems).toEqual([]);
    const slow: string[] = [];
    for (const one of suspects.slice(0, 40)) {
      const pauses: number[] = [];
      for (let run = 0; run < PAUSE_RUNS; run++) pauses.push(await measured(one));
      const median = pauses.sort((a, b) => a - b)[PAUSE_RUNS >> 1] ?? 0;
      if (median > PAUSE_MS_MAX) slow.push(`${one.path} ${one.body.slice(0, 200)}: ${median} ms`);
    }
    expect(slow).toEqual([]);
    expect(streams.problems).toEqual([]);
    await streams.stop();
    expect(await server.settled()).toMatchObject({ requests: 0, heldBlocks: 0 });
    const lines = [...server.log, ...door.log];
    expect(lines.filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
    expect(await server.stop()).toBe(0);
  },
);
