// node bench/tokenizing.mjs: time of encoding, and how many times as fast as Hugging Face's library
// alone. Texts are this repository's: `unseen` ones after others warmed up code and words, and
// `again` the same ones once more; then conversations of some 100,000 tokens, each turn of which
// adds a text. Needs `npm run build`.
import { readdirSync, readFileSync } from "node:fs";
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { Tokenizer } from "../dist/tokenizer/index.js";
import { forLibrary } from "../dist/tokenizer/tokenizer-files.js";

const FOLDERS = [
  "models/pocket",
  "test/fixtures/tokenizers/llama3-style-byte-bpe",
  "test/fixtures/tokenizers/gpt2-byte-bpe",
  "test/fixtures/tokenizers/llama2-style-sp-bpe",
];
const WARM_UP = ["README.md", "src/scheduler", "src/kvcache"];
const UNSEEN = ["ARCHITECTURE.md", "CHANGELOG.md", "src/engine/loop", "src/server/openai"];

function textsOf(path) {
  if (path.endsWith(".md")) return [readFileSync(path, "utf8")];
  const names = readdirSync(path).filter((name) => name.endsWith(".ts"));
  return names.map((name) => readFileSync(`${path}/${name}`, "utf8"));
}

/** ms per 1000 tokens. */
function timed(encode, texts) {
  let tokens = 0;
  const start = performance.now();
  for (const text of texts) tokens += encode(text).length;
  return { ms: (1000 * (performance.now() - start)) / tokens, tokens };
}

const shown = (ms) => ms.toFixed(3).padStart(8);
console.log("ms per 1000 tokens   unseen  library  times |   again  library  times");
for (const folder of FOLDERS) {
  const json = readFileSync(`${folder}/tokenizer.json`, "utf8");
  const tokenizer = new Tokenizer({ tokenizerJson: json });
  const library = new Library(forLibrary(JSON.parse(json)), {});
  const encoders = [(text) => tokenizer.encodeIds(text), (text) => library.encode(text).ids];
  for (const encode of encoders) timed(encode, WARM_UP.flatMap(textsOf));
  const texts = UNSEEN.flatMap(textsOf);
  const rounds = [0, 1].map(() => encoders.map((encode) => timed(encode, texts).ms));
  const cells = rounds.map(([ours, theirs]) => {
    return `${shown(ours)} ${shown(theirs)} ${(theirs / ours).toFixed(1).padStart(6)}`;
  });
  console.log(`${folder.split("/").at(-1).padEnd(18)} ${cells.join(" | ")}`);
}

console.log(
  "\nms for a turn of a conversation: its new tokens, all its tokens, ours, library, times",
);
for (const folder of FOLDERS.slice(0, 3)) {
  const json = readFileSync(`${folder}/tokenizer.json`, "utf8");
  const tokenizer = new Tokenizer({ tokenizerJson: json });
  const library = new Library(forLibrary(JSON.parse(json)), {});
  const texts = UNSEEN.flatMap(textsOf);
  let chat = "";
  let before = 0;
  const turns = [];
  for (const text of [...texts, ...WARM_UP.flatMap(textsOf)]) {
    chat += `<|im_start|>user\n${text.slice(0, 9_000)}<|im_end|>\n`;
    const start = performance.now();
    const { length } = tokenizer.encodeIds(chat);
    turns.push({ added: length - before, length, ms: performance.now() - start });
    before = length;
    if (length > 100_000) break;
  }
  const start = performance.now();
  library.encode(chat);
  const theirs = performance.now() - start;
  const last = turns.slice(-5);
  const mean = (field) => last.reduce((sum, turn) => sum + turn[field], 0) / last.length;
  const cells = [mean("added").toFixed(0), before, mean("ms").toFixed(2), theirs.toFixed(1)];
  const times = (theirs / mean("ms")).toFixed(0);
  console.log(`${folder.split("/").at(-1).padEnd(18)} ${[...cells, times].join("  ")}`);
}
