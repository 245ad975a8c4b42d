/**
 * The TypeScript door, in a process of its own: reads calls as JSON lines, answers each with the
 * code that it ended with. The bundled model on the CPU; ends when its input does.
 */
import { createInterface } from "node:readline";
import { EngineError, LLM } from "perigee";

const poolBytes = 128 * 2 ** 20;
const llm = await LLM.load("models/pocket", {
  dtype: "float32",
  kvCache: { poolBytes },
  speculative: { kind: "redrafter" },
});

/** What no JSON can say, by name. */
const circle = {};
circle.self = circle;
const EXOTIC = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  bigint: 2n ** 70n,
  symbol: Symbol("s"),
  function: () => 1,
  circle,
  date: new Date(0),
  map: new Map([["a", 1]]),
  holes: new Array(3),
  bytes: new Uint8Array(8),
  sharedBytes: new Uint8Array(new SharedArrayBuffer(8)),
  promise: Promise.resolve(1),
  proxy: new Proxy({}, {}),
  bare: Object.create(null),
};

function optionsOf({ text, exotic, field }) {
  const options = text === undefined ? {} : JSON.parse(text);
  return exotic === undefined ? options : { ...options, [field]: EXOTIC[exotic] };
}

async function call(line) {
  const { call: name, prompt, messages } = line;
  const options = optionsOf(line);
  switch (name) {
    case "generate":
      return (await llm.generate(JSON.parse(prompt), options)).flatMap(({ completions }) =>
        completions.map(({ text }) => text),
      );
    case "stream": {
      const texts = [];
      for await (const { index, text } of llm.stream(JSON.parse(prompt), options)) {
        texts[index] = (texts[index] ?? "") + text;
      }
      return texts;
    }
    case "chatPrompt":
      await llm.chatPrompt(JSON.parse(messages), options);
      return null;
    case "chat":
      return [(await llm.chat(messages === undefined ? "Hi" : JSON.parse(messages), options)).text];
    case "embed":
      await llm.embed(JSON.parse(prompt));
      return null;
  }
}

/** `EngineError`s by their code; anything else by its kind, which is a mistake of ours. */
function codeOf(thrown) {
  return thrown instanceof EngineError ? thrown.code : `not ours: ${thrown?.stack ?? thrown}`;
}

process.stdout.write(`${JSON.stringify({ exotic: Object.keys(EXOTIC) })}\n`);
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  const answer = { id: line.id, code: "ok", texts: null };
  try {
    answer.texts = await call(line);
  } catch (thrown) {
    answer.code = codeOf(thrown);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
const { heldBlocks } = llm.stats();
process.stdout.write(`${JSON.stringify({ heldBlocks })}\n`);
await llm[Symbol.asyncDispose]();
