import type { Command } from "commander";
import { defineAsk } from "../rag/ask.ts";
import { defineIngest } from "../rag/ingest.ts";
import { STORE_DEFAULT } from "../rag/rag-flags.ts";
import { defineSearch } from "../rag/search.ts";
import { defineRemove, defineStatus } from "../rag/upkeep.ts";

const MANUAL = `
Documents are read, cut into chunks and stored with vectors; a question finds chunks by meaning and
by words, and a model answers from them and cites them. All of it runs on this machine.

  perigee rag ingest docs/ README.md            read files; again: only what changed
  perigee rag ask "How is a block evicted?"     answer, with sources
  perigee rag search "eviction" --limit 3       the chunks alone
  perigee rag status --documents                what is stored
  perigee rag remove docs/old.md                forget a document; --all: the corpus

Corpora are kept in ${STORE_DEFAULT} below the working folder, unless --store names another folder
or a Milvus server: --store http://127.0.0.1:19530. Several of them have names: --corpus NAME. What
makes vectors is chosen once for a corpus: --embedder MODEL.

Answers cite passages by number, like [1]. A number that was not given to the model is left out and
reported; a source that does not have the cited words is marked. The bundled model is small: it
quotes sentences where the sources do not confirm its own words (--style). Questions that nothing
answers get "The passages do not say.".

Results are on standard output, as JSON with --json; progress and problems on standard error.
Exit codes: 0 done, 1 failed, 2 wrong use, 130 ended by Ctrl-C.
`;

/** `perigee rag`. */
export function defineRag(rag: Command): void {
  rag.addHelpText("after", MANUAL);
  defineIngest(rag.command("ingest"));
  defineSearch(rag.command("search"));
  defineAsk(rag.command("ask"));
  defineStatus(rag.command("status"));
  defineRemove(rag.command("remove"));
}
