/**
 * A coding agent's session as its client sends it: a billing header that changes with every
 * request, a long system prompt, tools, and a conversation that grows by a call and its result.
 */
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const pocket = fileURLToPath(new URL("../models/pocket/", import.meta.url));
/** Of the bundled model, whose tokenizer and chat template the random one has. */
const VOCABULARY = 4096;

/** Writes a tiny model of random weights with that context; load it with `randomWeights`. */
export function writeLongModel(folder, contextTokens) {
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    cpSync(join(pocket, name), join(folder, name));
  }
  const config = {
    ...{ architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: VOCABULARY },
    ...{ hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, rope_theta: 500_000 },
    ...{ num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: contextTokens },
    ...{ rms_norm_eps: 1e-5, tie_word_embeddings: true, hidden_act: "silu", eos_token_id: [3, 0] },
    ...{ bos_token_id: null, pad_token_id: 1, torch_dtype: "float32" },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
}

const SENTENCES = [
  "Read a file before it is changed, and change only what the task names.",
  "When a command fails, say what was run, what it printed and what is tried next.",
  "Never print secrets; a path outside of the working folder needs a reason.",
  "Prefer the tools of the project to commands of your own.",
  "A test that was not run is not known to pass.",
];

/** Of a numbered sentence, with the bundled tokenizer. */
const SENTENCE_TOKENS = 21;

/** Text of about so many tokens of the bundled tokenizer. */
function prose(tokens, seed) {
  const words = [];
  for (let at = 0; words.length < tokens / SENTENCE_TOKENS; at++) {
    const place = (at * 7 + seed * 3) % SENTENCES.length;
    words.push(`${seed}.${at} ${SENTENCES[place]}`);
  }
  return words.join("\n");
}

const TOOLS = ["read_file", "write_file", "run_command", "search", "list_folder", "fetch_page"];

const tools = TOOLS.map((name) => ({
  name,
  description: `${name.replace("_", " ")}: ${SENTENCES.join(" ")}`,
  input_schema: {
    type: "object",
    properties: { path: { type: "string", description: "A path below the working folder." } },
    required: ["path"],
  },
}));

/** Another value in each request, as the agents have it. */
function billingHeader(turn) {
  const check = (0x5a17 + turn * 40_503).toString(16).slice(-5).padStart(5, "0");
  return `x-anthropic-billing-header: cc_version=2.1.15.f30; cc_entrypoint=cli; cch=${check};`;
}

/**
 * Plays a session against a server, one request after the other.
 *
 * @param {{ url: string, model: string, systemTokens: number, turns: number }} session
 * @returns {Promise<{
 *   promptTokens: number, cachedTokens: number, hitRate: number, ttftMs: number
 * }[]>} a row per turn
 */
export async function playSession({ url, model, systemTokens, turns }) {
  const messages = [];
  const rows = [];
  const instructions = prose(systemTokens, 1);
  for (let turn = 0; turn < turns; turn++) {
    messages.push({ role: "user", content: userContent(turn) });
    const body = {
      ...{ model, max_tokens: 16, temperature: 0, stream: true, tools, messages },
      system: [
        { type: "text", text: billingHeader(turn) },
        { type: "text", text: "You are a coding agent." },
        { type: "text", text: instructions, cache_control: { type: "ephemeral", ttl: "1h" } },
      ],
    };
    rows.push(await ask(url, body));
    const input = { path: `src/file-${turn}.ts` };
    const text = { type: "text", text: `Step ${turn}: I look at the file first.` };
    const call = { type: "tool_use", id: `toolu_${turn}`, name: "read_file", input };
    messages.push({ role: "assistant", content: [text, call] });
  }
  return rows;
}

function userContent(turn) {
  if (turn === 0) return [{ type: "text", text: "Find out why the tests fail, and mend it." }];
  const content = prose(150, 1 + turn);
  return [{ type: "tool_result", tool_use_id: `toolu_${turn - 1}`, content }];
}

/** One streamed request; its usage as the stream's beginning tells it. */
async function ask(url, body) {
  const begunMs = performance.now();
  const answer = await fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" },
    body: JSON.stringify(body),
  });
  if (answer.status !== 200 || answer.body === null) {
    throw new Error(`The server answers ${answer.status}: ${await answer.text()}`);
  }
  let text = "";
  let ttftMs = 0;
  const decoder = new TextDecoder();
  for await (const bytes of answer.body) {
    ttftMs ||= performance.now() - begunMs;
    text += decoder.decode(bytes, { stream: true });
  }
  const start = /^event: message_start\ndata: (.*)$/m.exec(text)?.[1];
  if (start === undefined) throw new Error(`The stream has no beginning: ${text.slice(0, 300)}`);
  const { usage } = JSON.parse(start).message;
  const cachedTokens = usage.cache_read_input_tokens;
  const promptTokens = usage.input_tokens + usage.cache_creation_input_tokens + cachedTokens;
  return { promptTokens, cachedTokens, hitRate: cachedTokens / promptTokens, ttftMs };
}
