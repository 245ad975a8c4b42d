/**
 * Loads @mlc-ai/web-xgrammar, which Node cannot import: the file is UMD, but its package says that
 * it is ESM. It is compiled as a function that gets what UMD wants. Each call makes an instance
 * with a WebAssembly memory of its own.
 *
 * The library is built without exceptions: a grammar that it cannot read aborts the instance, after
 * a message on its console. So the console is ours, and an instance that aborted is not used again.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { compileFunction } from "node:vm";
import type * as XGrammar from "@mlc-ai/web-xgrammar";

export type XGrammarApi = typeof XGrammar;

/** The library and what it said. */
export interface XGrammarInstance {
  readonly api: XGrammarApi;
  /** What went wrong in the last call: the library's own words where there are any. */
  explain(error: unknown): string;
}

const linesKept = 8;
const require = createRequire(import.meta.url);
let source: string | null = null;

/** `[FATAL] /some/path.cc:102: EBNF lexer error …` without its address. */
const fatal = /^\[FATAL\] .*?\.cc:\d+: (?:Check failed: \(.*?\) is false: )?(.*)$/s;

/** A fresh instance. Without `process` the library takes no path of Node's, and needs none. */
export function loadXGrammar(): XGrammarInstance {
  const path = require.resolve("@mlc-ai/web-xgrammar");
  source ??= readFileSync(path, "utf8");
  const said: string[] = [];
  const hear = (...words: unknown[]): void => {
    said.push(words.map(String).join(" "));
    if (said.length > linesKept) said.shift();
  };
  const names = ["exports", "module", "require", "__filename", "__dirname", "process", "console"];
  const run = compileFunction(source, names, { filename: path });
  const module = { exports: {} };
  const console = { log: hear, warn: hear, error: hear };
  run(module.exports, module, createRequire(path), path, dirname(path), undefined, console);
  return {
    api: module.exports as XGrammarApi, // what a UMD file exports has no static type
    explain(error) {
      const line = said.findLast((text) => fatal.test(text));
      said.length = 0;
      const reason = line === undefined ? undefined : fatal.exec(line)?.[1];
      return reason ?? (error instanceof Error ? error.message : "the library gives no reason");
    },
  };
}
