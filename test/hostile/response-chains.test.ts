/** Conversations of kept responses that are long, others', deleted or overtaken, beside streams. */
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { full, sized } from "../support/full.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { ServedProcess } from "./served-process.ts";

/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const TURNS = sized(20, 150);
const model = "pocket";
const missing = { status: 404, code: "response_not_found" };
/** Two keys, each with a shelf of its own. */
const KEYS = ["first", "second"] as const;

async function served(flags: readonly string[] = []) {
  const server = await ServedProcess.start(".", flags);
  onTestFinished(() => server.kill());
  const client = (apiKey = "none") =>
    new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  return { server, client };
}

/** The median of several waits for the same. */
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

test(`a chain of ${TURNS} responses goes on, and holds up no other request`, {
  timeout: sized(4, 30) * 60_000,
}, async () => {
  const { server, client } = await served();
  const streams = await OrdinaryStreams.start(server.url);
  onTestFinished(() => streams.kill());
  const { responses } = client();
  let previous: string | null = null;
  const ids: string[] = [];
  const pauses: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const window = streams.openWindow();
    const response: OpenAI.Responses.Response = await responses.create({
      ...{ model, input: `turn ${turn}`, max_output_tokens: 2, temperature: 0, truncation: "auto" },
      ...(previous !== null && { previous_response_id: previous }),
    });
    pauses.push(await streams.closeWindow(window));
    previous = response.id;
    ids.push(response.output[0]?.id ?? "");
    expect(response.usage?.input_tokens).toBeLessThan(1024);
  }
  // The end of the chain, which is the longest.
  expect(median(pauses.slice(-9))).toBeLessThan(PAUSE_MS_MAX);
  // Without truncation it does not fit, and says so.
  const whole = { model, input: "all", previous_response_id: previous ?? "" };
  if (full) await expect(responses.create(whole)).rejects.toMatchObject({ status: 400 });
  // Every answer of the chain is named at once, and nothing of them is fetched twice.
  const named = { model, max_output_tokens: 2, truncation: "auto" as const };
  const input = ids.map((id) => ({ type: "item_reference" as const, id }));
  const before = streams.openWindow();
  const answer = responses.create({ ...named, input });
  // There is no user's turn in it: nothing may be dropped.
  if (full) await expect(answer).rejects.toMatchObject({ code: "context_length_exceeded" });
  else expect((await answer).status).not.toBe("failed");
  expect(await streams.closeWindow(before)).toBeLessThan(2 * PAUSE_MS_MAX);
  // A hundred that all go on with the same one at once.
  const window = streams.openWindow();
  const branches = await Promise.all(
    Array.from({ length: 100 }, (_, at) =>
      responses.create({
        ...{ model, input: `branch ${at}`, max_output_tokens: 2, truncation: "auto" },
        previous_response_id: previous,
      }),
    ),
  );
  expect(new Set(branches.map(({ id }) => id)).size).toBe(100);
  expect(await streams.closeWindow(window)).toBeLessThan(2 * PAUSE_MS_MAX);
  expect(streams.problems).toEqual([]);
  await streams.stop();
  expect(await server.settled()).toMatchObject({ requests: 0, heldBlocks: 0 });
});

test("what a stream goes on with may be deleted meanwhile: the stream ends right", {
  timeout: sized(2, 10) * 60_000,
}, async () => {
  const { server, client } = await served();
  const { responses } = client();
  for (let run = 0; run < 8; run++) {
    const first = await responses.create({ model, input: "Hi", max_output_tokens: 2 });
    const stream = await responses.create({
      ...{ model, input: "Go on.", max_output_tokens: 64, stream: true, ignore_eos: true },
      previous_response_id: first.id,
    } as OpenAI.Responses.ResponseCreateParamsStreaming);
    let [id, isDeleted, last] = ["", false, ""];
    for await (const event of stream) {
      last = event.type;
      if (event.type === "response.created") id = event.response.id;
      if (isDeleted || event.type !== "response.output_text.delta") continue;
      isDeleted = true;
      await responses.delete(first.id);
    }
    expect([isDeleted, last]).toEqual([true, "response.incomplete"]);
    // It stands on what is gone: neither can be gone on with.
    for (const gone of [first.id, id]) {
      await expect(responses.retrieve(gone)).rejects.toMatchObject(missing);
    }
    // It is deleted once.
    await expect(responses.delete(first.id)).rejects.toMatchObject(missing);
  }
  const own = await responses.create({ model, input: "Hi", max_output_tokens: 2 });
  const deletions = Array.from({ length: 50 }, () => responses.delete(own.id));
  const ends = await Promise.allSettled(deletions);
  expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await server.settled()).toMatchObject({ requests: 0, heldBlocks: 0 });
});

test("another key finds nothing, by whichever way it names it, and fills no other's shelf", {
  timeout: sized(2, 10) * 60_000,
}, async () => {
  const flags = KEYS.flatMap((key) => ["--api-key", key]);
  const { client } = await served([...flags, "--responses-stored-max", "10"]);
  const [owner, other] = KEYS.map((key) => client(key).responses);
  if (owner === undefined || other === undefined) throw new Error("Two clients");
  const small = { model, max_output_tokens: 2 };
  const secret = await owner.create({ ...small, input: "The word is heron." });
  const itemId = secret.output[0]?.id ?? "";
  const { data } = await owner.inputItems.list(secret.id);
  const own = await other.create({ ...small, input: "Hi" });
  const refused = { status: 404 };
  for (const id of [secret.id, secret.id.toUpperCase(), `${secret.id} `, `${secret.id}%00`]) {
    await expect(other.retrieve(id)).rejects.toMatchObject(refused);
    await expect(other.delete(id)).rejects.toMatchObject(refused);
    const asked = { ...small, input: "Which word?", previous_response_id: id };
    const failure = await other.create(asked).catch((error) => error);
    expect([400, 404]).toContain(failure.status);
    expect(String(failure.message)).not.toContain("heron");
  }
  for (const id of [itemId, data[0]?.id ?? ""]) {
    const input = [{ type: "item_reference" as const, id }];
    await expect(other.create({ ...small, input })).rejects.toMatchObject(refused);
    const asked = { ...small, input, previous_response_id: own.id };
    await expect(other.create(asked)).rejects.toMatchObject(refused);
  }
  for (let at = 0; at < 30; at++) await other.create({ ...small, input: `${at}` });
  expect((await owner.retrieve(secret.id)).id).toBe(secret.id);
});
