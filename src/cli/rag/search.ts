import type { Command } from "commander";
import { inFlags } from "../flags.ts";
import { Interrupted, Interruption } from "../interruption.ts";
import { shownText } from "../terminal-text.ts";
import { FILTER_HELP, filterFromFlag } from "./filter-flag.ts";
import { placeJson, placeText } from "./place-text.ts";
import {
  addEmbedderFlag,
  addPlaceFlags,
  addRerankerFlag,
  openRag,
  type RagFlags,
  searchFlags,
} from "./rag-flags.ts";

interface SearchFlags extends RagFlags {
  readonly filter?: string;
}

/** Characters of a chunk that are shown. */
const SHOWN = 240;

/** `perigee rag search`. */
export function defineSearch(command: Command): void {
  command
    .description("Find the chunks of a corpus that answer a query, best first.")
    .argument("<query>")
    .option("--filter <json>", FILTER_HELP)
    .option("--json", "Print a JSON object per line, with the whole text of each chunk.")
    .action((query: string, flags: SearchFlags) =>
      search(query, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, searchFlags);
      }),
    );
  addRerankerFlag(addEmbedderFlag(addPlaceFlags(command)));
  searchFlags.addTo(command, "Search:");
}

async function search(query: string, flags: SearchFlags): Promise<void> {
  searchFlags.check(flags);
  const filter = filterFromFlag(flags.filter);
  using interruption = new Interruption();
  const { signal } = interruption;
  await using rag = await openRag(flags);
  const { corpus } = flags;
  try {
    const wanted = { ...searchFlags.collect(flags), corpus, filter, signal };
    for await (const { chunk, score, cosine, relevance } of rag.search(query, wanted)) {
      const row = { score, cosine, relevance, ...placeJson(chunk), text: chunk.text };
      if (flags.json === true) say(`${JSON.stringify(row)}\n`);
      else say(`${score.toFixed(4)}  ${placeText(chunk)}\n        ${shown(chunk.text)}\n`);
    }
  } catch (thrown) {
    if (signal.aborted) throw new Interrupted("the search was ended");
    throw thrown;
  }
}

function shown(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SHOWN ? `${line.slice(0, SHOWN)} …` : line;
}

function say(text: string): void {
  process.stdout.write(shownText(text));
}
