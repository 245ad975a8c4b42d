import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundledModel, LLM } from "#engine";
import { type ChatParts, runChatCommand } from "../../../src/cli/chat/chat-commands.ts";
import { ChatSettings } from "../../../src/cli/chat/chat-settings.ts";
import { Conversation } from "../../../src/cli/chat/conversation.ts";
import { MessageLines } from "../../../src/cli/chat/message-lines.ts";
import { loadTranscript } from "../../../src/cli/chat/transcript.ts";
import { samplingFlags } from "../../../src/cli/sampling-flags.ts";
import { built, perigee } from "../perigee.ts";

const scratch = mkdtempSync(join(tmpdir(), "perigee-chat-"));
afterAll(() => rmSync(scratch, { recursive: true }));
const inScratch = (name: string, text?: string) => {
  const file = join(scratch, name);
  if (text !== undefined) writeFileSync(file, text);
  return file;
};

describe("messages of several lines", () => {
  const messages = (...lines: string[]) => {
    const joined = new MessageLines();
    const whole = lines.flatMap((line) => joined.add(line) ?? []);
    return joined.isOpen ? [...whole, joined.take()] : whole;
  };
  test.for<[readonly string[], readonly string[]]>([
    [
      ["one", "two"],
      ["one", "two"],
    ],
    [
      ["one\\", "two", "three"],
      ["one\ntwo", "three"],
    ],
    [
      ['"""', "one", "", "two", '"""', "three"],
      ["one\n\ntwo", "three"],
    ],
    [
      ['"""one', 'two"""', "three"],
      ["one\ntwo", "three"],
    ],
    [['"""one"""'], ["one"]],
    [['"""', "/exit", '"""'], ["/exit"]],
    [['"""', "never ended"], ["\nnever ended"]],
  ])("%j are %j", ([lines, wanted]) => {
    expect(messages(...lines).map((text) => text.trim())).toEqual(
      wanted.map((text) => text.trim()),
    );
  });
});

describe("commands", () => {
  let llm: LLM;
  let parts: ChatParts;
  beforeAll(async () => {
    llm = await LLM.load(bundledModel, { engineThread: false });
    return () => llm.close();
  });
  const fresh = (system: string | null = null) => {
    const settings = new ChatSettings(samplingFlags({ maxTokens: 8 }), { temperature: 0 }, {});
    parts = { llm, conversation: new Conversation(llm, system), settings };
    return parts;
  };
  const run = (line: string) => runChatCommand(line, parts);
  const said = async (text: string) =>
    await parts.conversation.say(text, { ...parts.settings.options, maxTokens: 4 });

  test("/set changes what the next answer is sampled with, and refuses what is none", () => {
    fresh();
    run("/set temperature 0.5");
    run("/set max-tokens 3");
    run("/set stop END OF TEXT");
    expect(parts.settings.options).toMatchObject({
      ...{ temperature: 0.5, maxTokens: 3, stop: ["END OF TEXT"] },
    });
    expect(() => run("/set temperature 9")).toThrow("must be at most 2, current value is 9");
    expect(() => run("/set temperature hot")).toThrow("must be a number, current value is hot");
    expect(() => run("/set temprature 1")).toThrow("did you mean temperature?");
    expect(parts.settings.options.temperature).toBe(0.5);
    expect(run("/set")).toMatchObject({ text: expect.stringContaining("temperature = 0.5") });
  });

  test("/system, /clear and /retry change the conversation", async () => {
    fresh("Be brief.");
    await said("Hello");
    expect(parts.conversation.messages.map(({ role }) => role)).toEqual([
      ...["system", "user", "assistant"],
    ]);
    expect(run("/system")).toEqual({ kind: "note", text: "Be brief." });
    run("/system Be long.");
    expect(run("/retry")).toEqual({ kind: "say", text: "Hello" });
    expect(parts.conversation.messages).toEqual([{ role: "system", content: "Be long." }]);
    run("/clear");
    run("/system none");
    expect(parts.conversation.messages).toEqual([]);
    expect(run("/retry")).toEqual({ kind: "note", text: "nothing was asked yet" });
  });

  test("/stats tells tokens and what a second turn found in the cache", async () => {
    fresh();
    expect(run("/stats")).toEqual({ kind: "note", text: "nothing was answered yet" });
    await said("What is a hash table, and when does one use it instead of a sorted list?");
    await said("And a tree?");
    const [first, second] = parts.conversation.stats;
    expect(first).toMatchObject({ outputTokens: 4 });
    expect(second?.cachedTokens).toBeGreaterThan(10);
    expect(run("/stats")).toMatchObject({
      text: expect.stringMatching(/^last answer: \d+ prompt tokens, \d+ cached, 4 output tokens/),
    });
  });

  test("/save and /load keep a conversation, for this user alone", async () => {
    fresh("Be kind.");
    await said("Hello");
    const file = inScratch("chat.json");
    run(`/save ${file}`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const messages = parts.conversation.messages;
    fresh();
    expect(run(`/load ${file}`)).toEqual({ kind: "note", text: "3 messages" });
    expect(parts.conversation.messages).toEqual(messages);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ model: llm.info.name });
    expect(() => run("/save")).toThrow("must have a file, as in /save chat.json");
    expect(() => run(`/save ${scratch}/none/chat.json`)).toThrow("its folder does not exist");
  });

  test("a file of something else changes nothing", async () => {
    fresh();
    await said("Hello");
    const before = parts.conversation.messages;
    for (const text of ["{", "{}", "7", '[{"role":"tool","content":"x"}]', '[{"role":"user"}]']) {
      expect(() => run(`/load ${inScratch("bad.json", text)}`)).toThrow("Cannot load");
    }
    expect(parts.conversation.messages).toEqual(before);
  });

  test("a conversation longer than any is not read", () => {
    const file = inScratch("long.json", `["${"x".repeat(17 * 2 ** 20)}"]`);
    expect(() => loadTranscript(file)).toThrow("must have at most 16777216 bytes");
  });

  test("a question that cannot be answered is not kept", async () => {
    fresh();
    const { contextTokensMax } = llm.info;
    await expect(said("word ".repeat(contextTokensMax))).rejects.toThrow();
    expect(parts.conversation.messages).toEqual([]);
    await said("Hello");
    expect(parts.conversation.messages).toHaveLength(2);
  });

  test.for<[string, string]>([
    ["/hlep", "did you mean /help?"],
    ["/usr/bin", "a space before the slash makes it a message"],
    ["/constructor", "is no command"],
    ["/", "is no command"],
  ])("%s is no command", ([line, message]) => {
    fresh();
    expect(() => run(line)).toThrow(message);
  });
});

test.runIf(built)("a pipe may have commands, whose answers are on standard error", async () => {
  const file = inScratch("piped.json");
  const input = `/system Be brief.\n"""\nWhat is\na hash table?\n"""\n/stats\n/save ${file}\n/exit\nx\n`;
  const words = ["chat", "--max-tokens", "6", "--temperature", "0"];
  const ran = await perigee(words, { input });
  expect(ran.code).toBe(0);
  expect(ran.stdout.trim().split("\n")).toHaveLength(1);
  expect(ran.stderr).toMatch(/^last answer: .*\nsaved 3 messages/ms);
  expect(loadTranscript(file)[1]).toEqual({ role: "user", content: "What is\na hash table?" });
});
