import type { Command } from "commander";
import { EngineError } from "#base";
import { shownText } from "../terminal-text.ts";
import { addPlaceFlags, openRag, type RagFlags } from "./rag-flags.ts";

interface StatusFlags extends RagFlags {
  readonly documents?: boolean;
}

interface RemoveFlags extends RagFlags {
  readonly all?: boolean;
}

/** `perigee rag status`. */
export function defineStatus(command: Command): void {
  command
    .description("Show the store, its corpora and how much is in them.")
    .option("--documents", "List the documents of --corpus.")
    .option("--json", "Print JSON.")
    .action(status);
  addPlaceFlags(command);
}

/** `perigee rag remove`. */
export function defineRemove(command: Command): void {
  command
    .description("Remove documents from a corpus, or a whole corpus.")
    .argument(
      "[document...]",
      "Names of documents, as `perigee rag status --documents` lists them.",
    )
    .option("--all", "Remove the corpus with all of its documents.")
    .option("--json", "Print JSON.")
    .action(remove);
  addPlaceFlags(command);
}

async function status(flags: StatusFlags): Promise<void> {
  await using rag = await openRag(flags);
  const { store, corpora } = await rag.status();
  if (flags.documents === true && !corpora.some(({ name }) => name === flags.corpus)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot list the documents of corpus ${flags.corpus}: there is none of this name; see ` +
        "perigee rag status",
      { param: "--corpus" },
    );
  }
  const documents = flags.documents === true ? await rag.documents(flags.corpus) : null;
  if (flags.json === true) {
    const listed = documents === null ? {} : { documents };
    say(`${JSON.stringify({ store, corpora, ...listed }, null, 2)}\n`);
    return;
  }
  if (documents !== null) {
    say(documents.map(({ id, chunks }) => `${id}\t${chunks} chunks\n`).join(""));
    return;
  }
  const lines = [`store\t${store.kind} ${store.location}`, ...store.notes.map((n) => `note\t${n}`)];
  for (const { name, documents: count, chunks, dimensions } of corpora) {
    lines.push(`${name}\t${count} documents, ${chunks} chunks, ${dimensions} dimensions`);
  }
  say(`${lines.join("\n")}\n`);
}

async function remove(documents: readonly string[], flags: RemoveFlags): Promise<void> {
  if ((documents.length === 0) === (flags.all !== true)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot remove: wanted names of documents or --all, " +
        `${documents.length === 0 ? "none is" : "both are"} given`,
    );
  }
  await using rag = await openRag(flags);
  const { corpus } = flags;
  const removed: { document: string | null; chunks: number }[] = [];
  if (flags.all === true) {
    const known = (await rag.status()).corpora.find(({ name }) => name === corpus);
    if (await rag.removeCorpus(corpus)) {
      removed.push({ document: null, chunks: known?.chunks ?? 0 });
    }
  }
  for (const document of documents) {
    const chunks = await rag.removeDocument(document, corpus);
    if (chunks > 0) removed.push({ document, chunks });
  }
  const text = removed
    .map(({ document, chunks }) => `removed ${document ?? corpus}\t${chunks} chunks\n`)
    .join("");
  say(flags.json === true ? `${JSON.stringify(removed)}\n` : text);
  if (removed.length > 0 && removed.length >= documents.length) return;
  const missing = documents.filter((one) => !removed.some(({ document }) => document === one));
  const what = flags.all === true ? `corpus ${corpus}` : missing.join(", ");
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot remove ${what}: wanted what is there, the store does not have it; see perigee rag ` +
      "status --documents",
  );
}

function say(text: string): void {
  process.stdout.write(shownText(text));
}
