import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { EngineError } from "#base";
import type { Answer, AskOptions, Rag, Turn } from "#rag";
import { engineFlags, loadModel } from "../engine-flags.ts";
import { inFlags } from "../flags.ts";
import { Interrupted, Interruption } from "../interruption.ts";
import { print } from "../standard-output.ts";
import { FILTER_HELP, filterFromFlag } from "./filter-flag.ts";
import { placeJson, placeText } from "./place-text.ts";
import {
  addEmbedderFlag,
  addPlaceFlags,
  addRerankerFlag,
  askFlags,
  askSearchFlags,
  openRag,
  type RagFlags,
} from "./rag-flags.ts";

interface AskCommandFlags extends RagFlags {
  readonly filter?: string;
  readonly model?: string;
}

/** `perigee rag ask`. */
export function defineAsk(command: Command): void {
  command
    .description(
      "Answer questions from a corpus, with sources. Without a question, each line of standard " +
        "input is one, and may lean on those before it.",
    )
    .argument("[question]")
    .option("--model <name>", "What answers, as for perigee generate. (default: the bundled model)")
    .option("--filter <json>", FILTER_HELP)
    .option("--json", "Print a JSON object per question, with sources, citations and usage.")
    .action((question: string | undefined, flags: AskCommandFlags) =>
      ask(question, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, askFlags, askSearchFlags, engineFlags);
      }),
    );
  addRerankerFlag(addEmbedderFlag(addPlaceFlags(command)));
  askFlags.addTo(command, "Answers:");
  askSearchFlags.addTo(command, "Search:");
  engineFlags.addTo(command, "Model and engine:");
}

async function ask(question: string | undefined, flags: AskCommandFlags): Promise<void> {
  askFlags.check(flags);
  askSearchFlags.check(flags);
  const filter = filterFromFlag(flags.filter);
  using interruption = new Interruption();
  const { signal } = interruption;
  await using llm = await loadModel({ model: flags.model, values: flags });
  await using rag = await openRag(flags, { llm });
  const { corpus } = flags;
  const search = askSearchFlags.collect(flags);
  const options: AskOptions = { ...askFlags.collect(flags), ...search, corpus, filter, signal };
  const isJson = flags.json === true;
  try {
    if (question !== undefined) await answer(rag, question, options, isJson);
    else await converse(rag, options, isJson);
  } catch (thrown) {
    if (signal.aborted) throw new Interrupted("the answer was ended");
    throw thrown;
  }
}

/** Answers line by line; a question that failed ends nothing but itself on a terminal. */
async function converse(rag: Rag, options: AskOptions, isJson: boolean): Promise<void> {
  const isTyped = process.stdin.isTTY && process.stdout.isTTY;
  const input = createInterface({
    ...{ input: process.stdin, prompt: "> " },
    ...(isTyped && { output: process.stdout }),
    ...(options.signal && { signal: options.signal }),
  });
  const turns: Turn[] = [];
  let asked = 0;
  if (isTyped) input.prompt();
  for await (const line of input) {
    const question = line.trim();
    if (question !== "") {
      asked += 1;
      const { text } = await answer(rag, question, { ...options, turns }, isJson);
      turns.push({ question, answer: text });
    }
    if (isTyped) input.prompt();
  }
  options.signal?.throwIfAborted();
  if (asked > 0 || isTyped) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot ask: wanted a question as an argument, or one in each line of standard input; none " +
      "was given",
  );
}

async function answer(
  rag: Rag,
  question: string,
  options: AskOptions,
  isJson: boolean,
): Promise<Answer> {
  for await (const event of rag.ask(question, options)) {
    if (event.type === "text" && !isJson) await print(event.text);
    if (event.type !== "answer") continue;
    await print(isJson ? `${JSON.stringify(json(event.answer))}\n` : `\n${cited(event.answer)}`);
    return event.answer;
  }
  throw new EngineError("ABORTED", "Cannot answer: the answer ended early");
}

/** The cited sources, a line each; those that do not say what is cited from them are marked. */
function cited({ sources, citations, dropped }: Answer): string {
  const lines = sources.flatMap(({ number, chunk }) => {
    const own = citations.filter((citation) => citation.number === number);
    if (own.length === 0) return [];
    const doubtful = own.some(({ support }) => support === null);
    return [`[${number}] ${placeText(chunk)}${doubtful ? " (does not say so in its words)" : ""}`];
  });
  const numbers = [...new Set(dropped)].join(", ");
  if (dropped.length > 0) lines.push(`left out, since no such source was given: ${numbers}`);
  return lines.length === 0 ? "" : `\n${lines.join("\n")}\n`;
}

function json({ sources, ...answer }: Answer) {
  const given = sources.map(({ number, chunk, score }) => {
    return { number, score, ...placeJson(chunk), text: chunk.text };
  });
  return { ...answer, sources: given };
}
