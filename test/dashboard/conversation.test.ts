import { expect, test } from "vitest";
import { AnswerReader } from "../../dashboard/src/chat/answer-reader.ts";
import {
  addTurn,
  branchesOf,
  changeTurn,
  choose,
  EMPTY,
  fromJson,
  shownPath,
  toJson,
} from "../../dashboard/src/chat/conversation.ts";
import { bodyOf, DEFAULTS } from "../../dashboard/src/chat/settings.ts";
import { EventReader } from "../../dashboard/src/event-reader.ts";

/** A question, its answer, and another wording of the question with an answer of its own. */
function branched() {
  const asked = addTurn(EMPTY, { parent: null, role: "user", content: "first" });
  const answer = { parent: asked.id, role: "assistant", content: "one" } as const;
  const answered = addTurn(asked.conversation, answer);
  const edited = addTurn(answered.conversation, { parent: null, role: "user", content: "second" });
  const other = { parent: edited.id, role: "assistant", content: "two" } as const;
  return addTurn(edited.conversation, other).conversation;
}

const contents = (turns: readonly { content: string }[]) => turns.map(({ content }) => content);

test("an edited message begins a branch, and the other one is still there", () => {
  const conversation = branched();
  expect(contents(shownPath(conversation))).toEqual(["second", "two"]);
  expect(contents(branchesOf(conversation, { parent: null }))).toEqual(["first", "second"]);
  expect(contents(shownPath(choose(conversation, 1)))).toEqual(["first", "one"]);
  expect(contents(shownPath(choose(conversation, 99)))).toEqual(["second", "two"]);
});

test("what is exported is imported as it was, branches and counts included", () => {
  const stats = {
    ...{ promptTokens: 9, cachedTokens: 4, completionTokens: 3, accepted: 2, rejected: 1 },
    ...{ firstTokenMs: 1.5, wholeMs: 9 },
  };
  const conversation = changeTurn(branched(), 2, {
    stats,
    toolCalls: [{ id: "c", name: "look", arguments: "{}" }],
    citations: [{ filename: "a.md", fileId: "file-1" }],
  });
  expect(fromJson(toJson(conversation, "Be brief"))).toEqual({ conversation, system: "Be brief" });
});

test.for([
  ["nothing", "", "no JSON"],
  ["another file", "{}", "no conversation"],
  ["a list", "[]", "must be an object"],
  ["turns that are none", '{"format":"perigee-chat","turns":[1]}', "a turn must be an object"],
  ["a role", turnsText({ role: "system" }), "must be of user, assistant or tool"],
  ["an unknown parent", turnsText({ parent: 7 }), "follows an unknown one"],
  ["a text that is none", turnsText({ content: { html: "<b>" } }), "content must be text"],
  ["too many", `{"format":"perigee-chat","turns":[${"1,".repeat(2000)}1]}`, "more than 2000"],
] as const)("a file with %s is refused, with the reason", ([, text, reason]) => {
  expect(() => fromJson(text)).toThrow(reason);
});

function turnsText(change: object): string {
  const turn = { id: 1, parent: null, role: "user", content: "a", ...change };
  return JSON.stringify({ format: "perigee-chat", turns: [turn] });
}

test("settings become fields of the request, empty ones none", () => {
  const path = shownPath(branched());
  expect(bodyOf({ ...DEFAULTS, maxTokens: "" }, path)).toEqual({
    messages: [
      { role: "user", content: "second" },
      { role: "assistant", content: "two" },
    ],
    stream: true,
    stream_options: { include_usage: true },
  });
  const settings = {
    ...({
      ...DEFAULTS,
      system: "Be brief",
      temperature: "0.5",
      stop: "a\nb",
      drafts: "off",
    } as const),
    ...{ promptPriority: "80", promptSeconds: "30", answerPriority: "10", cacheSalt: "mine" },
    ...{ tools: '[{"type":"function","function":{"name":"f"}}]', schema: '{"type":"object"}' },
  };
  expect(bodyOf(settings, path)).toMatchObject({
    messages: [{ role: "system", content: "Be brief" }, {}, {}],
    ...{ temperature: 0.5, max_tokens: 512, stop: ["a", "b"], speculative: false },
    ...{ cache_salt: "mine", tools: [{ function: { name: "f" } }] },
    response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } },
    kv_cache_retention_config: {
      token_range_retention_configs: [{ token_start: 0, priority: 80, duration_ms: 30_000 }],
      decode_retention_priority: 10,
    },
  });
  expect(bodyOf({ ...settings, stores: "vs_1, vs_2" }, path)).toMatchObject({
    tools: [{ type: "file_search", vector_store_ids: ["vs_1", "vs_2"] }],
  });
});

test.for([
  [{ temperature: "warm" }, "temperature must be a number"],
  [{ tools: "{}" }, "tools must be a list"],
  [{ tools: "[" }, "tools must be JSON"],
  [{ schema: "<" }, "the schema must be JSON"],
] as const)("a setting that cannot be is named: %j", ([change, reason]) => {
  expect(() => bodyOf({ ...DEFAULTS, ...change }, [])).toThrow(reason);
});

test("a file's text stands in a fence that it does not contain", () => {
  const files = [{ name: "a.md", text: "````\ncode\n````" }];
  const turn = addTurn(EMPTY, { parent: null, role: "user", content: "What is it?", files });
  const body = bodyOf(DEFAULTS, shownPath(turn.conversation));
  expect(JSON.stringify(body)).toContain(
    JSON.stringify("File a.md:\n`````\n````\ncode\n````\n`````\n\nWhat is it?"),
  );
});

test("chunks of an answer are joined: text, tool calls in pieces, citations, counts", () => {
  const reader = new AnswerReader(1000);
  const chunk = (delta: object, reason: string | null = null) => ({
    choices: [{ delta, finish_reason: reason }],
  });
  reader.take(chunk({ role: "assistant", content: "" }), 1010);
  reader.take(chunk({ content: "Hel" }), 1030);
  reader.take(chunk({ content: "lo" }), 1040);
  const call = { index: 0, id: "c1", function: { name: "look", arguments: '{"a"' } };
  reader.take(chunk({ tool_calls: [call] }), 1050);
  reader.take(chunk({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }), 1060);
  const cited = { type: "file_citation", file_citation: { file_id: "f", filename: "a.md" } };
  reader.take(chunk({ annotations: [cited] }, "tool_calls"), 1065);
  const details = { accepted_prediction_tokens: 3, rejected_prediction_tokens: 1 };
  const counts = { prompt_tokens: 8, completion_tokens: 5, completion_tokens_details: details };
  reader.take(
    { choices: [], usage: { ...counts, prompt_tokens_details: { cached_tokens: 6 } } },
    1066,
  );
  expect(reader.part).toEqual({
    content: "Hello",
    toolCalls: [{ id: "c1", name: "look", arguments: '{"a":1}' }],
    citations: [{ filename: "a.md", fileId: "f" }],
    finishReason: "tool_calls",
    stats: {
      ...{ promptTokens: 8, cachedTokens: 6, completionTokens: 5, accepted: 3, rejected: 1 },
      ...{ firstTokenMs: 30, wholeMs: 60 },
    },
  });
  expect(() => reader.take({ error: { message: "it broke" } }, 1)).toThrow("it broke");
});

test("events are read however they are cut", () => {
  const text = ': hello\n\nevent: now\r\ndata: {"a":1}\r\n\r\ndata: x\ndata: y\n\nevent: none\n\n';
  for (let size = 1; size <= text.length; size++) {
    const events: (readonly [string, string])[] = [];
    const reader = new EventReader((name, data) => events.push([name, data]));
    for (let at = 0; at < text.length; at += size) reader.push(text.slice(at, at + size));
    expect(events).toEqual([
      ["now", '{"a":1}'],
      ["message", "x\ny"],
    ]);
  }
  const reader = new EventReader(() => {});
  expect(() => reader.push("x".repeat(2 ** 24 + 1))).toThrow("too long");
});
