/** Hostile requests for responses and for kept ones, beside ordinary streams. */
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { Dice } from "../fuzz/dice.ts";
import { full, sized } from "../support/full.ts";
import { eventsIn } from "../support/response-events.ts";
import { type Answer, sendBody } from "./case-sender.ts";
import { objectText } from "./json-text.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { RESPONSE_VALUES, unmatched } from "./response-values.ts";
import { ServedProcess } from "./served-process.ts";
import { textOf, type Value } from "./value-families.ts";

const PATH = "/v1/responses";
/** Hostile values of each field; all of them where everything is tested. */
const VALUES_EACH = full ? Number.POSITIVE_INFINITY : 4;
/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const PAUSE_RUNS = 5;
const MESSAGE_LENGTH_MAX = 700;
const SHELF_BYTES = 200_000;

test("every field of a response has hostile values, so that a new field is not forgotten", () => {
  expect(unmatched()).toEqual({ fields: [], values: [] });
  const poor = [...RESPONSE_VALUES].filter(([, { hostile }]) => hostile.length < 10);
  expect(poor.map(([field]) => field)).toEqual([]);
});

/** A served process with a kept response in it. */
async function served() {
  const flags = ["--responses-stored-max", "20", "--responses-bytes-max", String(SHELF_BYTES)];
  const server = await ServedProcess.start(".", flags);
  onTestFinished(() => server.kill());
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  const kept = await client.responses.create({
    model: "pocket",
    input: "Hi",
    max_output_tokens: 3,
  });
  const itemId = kept.output[0]?.id ?? "";
  const named = (text: string) => text.replaceAll("KEPT", kept.id).replaceAll("ITEM", itemId);
  return { server, client, named };
}

type Served = Awaited<ReturnType<typeof served>>;

/** One request, which may be made again. */
interface Case {
  readonly name: string;
  send(): Promise<Answer>;
}

function* cases({ server, named }: Served, dice: Dice): Generator<Case> {
  for (const [field, { hostile, around = "$", beside = {} }] of RESPONSE_VALUES) {
    const [top = field] = field.split(/[.[]/, 1);
    for (const value of chosen(hostile, dice)) {
      const own = { input: '"Hi"', max_output_tokens: "3", ...beside };
      const stream = field !== "stream" && dice.below(2) === 0 ? { stream: "true" } : {};
      const written = around.split("$").join(textOf(value));
      const body = named(objectText({ ...own, ...stream, [top]: written }));
      const send = () => sendBody(server.url, PATH, body);
      yield { name: `${field} ${body.slice(0, 200)}`, send };
    }
  }
}

function chosen(values: readonly Value[], dice: Dice): readonly Value[] {
  if (values.length <= VALUES_EACH) return values;
  return Array.from({ length: VALUES_EACH }, () => dice.pick(values) ?? "null");
}

/** What is wrong with an answer; null: nothing. */
function problemOf({ status, headers, text, failure }: Answer): string | null {
  if (failure !== null) return failure;
  if (status !== 200) return refusalProblem(status, text);
  if (!String(headers["content-type"]).startsWith("text/event-stream")) {
    return wholeProblem(JSON.parse(text));
  }
  const last = eventsIn(text).at(-1);
  if (last?.type === "response.failed") return refusalProblem(400, failureText(last.response));
  return last?.response === undefined ? `ends with ${last?.type}` : wholeProblem(last.response);
}

function failureText(response: OpenAI.Responses.Response | undefined): string {
  return JSON.stringify({ error: response?.error });
}

function refusalProblem(status: number, text: string): string | null {
  if (status < 400 || status >= 500) return `${status} ${text.slice(0, 300)}`;
  const { error } = JSON.parse(text) as { error: { message: string; code: string } };
  if (error.code === "server_error") return `the server failed: ${error.message}`;
  return error.message.length > MESSAGE_LENGTH_MAX ? `${error.message.length} characters` : null;
}

function wholeProblem(response: OpenAI.Responses.Response): string | null {
  if (response.status !== "completed" && response.status !== "incomplete") {
    return `a response is ${response.status}`;
  }
  const { usage, output } = response;
  const isCounted =
    usage?.total_tokens === (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  return isCounted && output.length > 0 ? null : `usage ${JSON.stringify(usage)}`;
}

/** Ids and queries of kept responses that are none, or another one's. */
async function keptProblems({ server, named }: Served): Promise<string[]> {
  const problems: string[] = [];
  const ids = ["resp_", "%00", "..%2f..%2fetc", "x".repeat(600), "ITEM", `resp_${"0".repeat(44)}`];
  const ends = ["", "/input_items", "?stream=true", "?include=a&include=b", "?x=1"];
  const queries = ["limit=0", "limit=1e9", "limit=-1", "order=up", "after=x", "after=ITEM", "a=b"];
  const paths = [
    ...ids.flatMap((id) => ends.map((end) => `${id}${end}`)),
    ...queries.map((query) => `KEPT/input_items?${query}`),
  ];
  for (const path of paths) {
    for (const method of ["GET", "DELETE", "POST"]) {
      if (method === "DELETE" && path.startsWith("KEPT")) continue;
      const answer = await fetch(`${server.url}${PATH}/${named(path)}`, { method });
      const text = await answer.text();
      if (answer.status === 200 || (answer.status >= 400 && answer.status < 500)) continue;
      problems.push(`${method} ${path} → ${answer.status} ${text.slice(0, 200)}`);
    }
  }
  return problems;
}

test("hostile requests for responses are refused or answered, and no other request pauses", {
  timeout: sized(8, 60) * 60_000,
}, async () => {
  const own = await served();
  const streams = await OrdinaryStreams.start(own.server.url);
  onTestFinished(() => streams.kill());
  const problems: string[] = [];
  const suspects: Case[] = [];
  const measured = async (one: Case): Promise<number> => {
    const window = streams.openWindow();
    const problem = problemOf(await one.send());
    if (problem !== null) problems.push(`${one.name} → ${problem}`);
    return await streams.closeWindow(window);
  };
  for (const one of cases(own, new Dice(20_261_127))) {
    if ((await measured(one)) > PAUSE_MS_MAX) suspects.push(one);
    if (!own.server.alive) throw new Error(`${one.name} ended the server:\n${own.server.log}`);
  }
  problems.push(...(await keptProblems(own)));
  expect(problems).toEqual([]);
  const slow: string[] = [];
  for (const one of suspects.slice(0, 40)) {
    const pauses: number[] = [];
    for (let run = 0; run < PAUSE_RUNS; run++) pauses.push(await measured(one));
    const median = pauses.sort((a, b) => a - b)[PAUSE_RUNS >> 1] ?? 0;
    if (median > PAUSE_MS_MAX) slow.push(`${one.name}: ${median} ms`);
  }
  expect(slow).toEqual([]);
  expect(streams.problems).toEqual([]);
  await streams.stop();
  const { log } = own.server;
  expect(log.filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
  expect(await own.server.stop()).toBe(0);
});

test("a store that overflows gives the oldest back, and chains go on or say that they are gone", {
  timeout: sized(4, 10) * 60_000,
}, async () => {
  const { client, server } = await served();
  const create = (more: object) =>
    client.responses.create({ model: "pocket", max_output_tokens: 2, input: "Hi", ...more });
  const first = await create({});
  // Instructions are no item: they are kept with the response.
  const instructions = "Be brief. ".repeat(100);
  for (let at = 0; at < 25; at++) await create({ instructions });
  const missing = { status: 404, code: "response_not_found" };
  await expect(client.responses.retrieve(first.id)).rejects.toMatchObject(missing);
  await expect(create({ previous_response_id: first.id })).rejects.toMatchObject(missing);
  // A chain of texts that are not kept for long: it breaks with 404, and never with another status.
  let previous: string | null = null;
  let breaks = 0;
  for (let turn = 0; turn < 30; turn++) {
    const filler = Array.from({ length: 16 }, (_, at) => [`k${at}`, "x".repeat(512)]);
    const metadata = Object.fromEntries(filler);
    const more: object = previous === null ? {} : { previous_response_id: previous };
    try {
      previous = (await create({ ...more, metadata, truncation: "auto" })).id;
    } catch (error) {
      expect(error).toMatchObject(missing);
      previous = null;
      breaks++;
    }
  }
  const info = (await (await fetch(`${server.url}/server_info`)).json()) as Kept;
  expect(info.kept_responses.count).toBeLessThanOrEqual(20);
  expect(info.kept_responses.bytes).toBeLessThanOrEqual(SHELF_BYTES);
  expect([breaks > 0, breaks < 15]).toEqual([true, true]);
});

interface Kept {
  readonly kept_responses: { readonly count: number; readonly bytes: number };
}
