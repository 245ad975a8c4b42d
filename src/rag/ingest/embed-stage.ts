/** The second part of a pipeline: chunks of several documents get their vectors together. */
import type { Channel } from "./channel.ts";
import type { CutDocument, EmbeddedChunk, IngestRun } from "./ingest-run.ts";
import { otherWork } from "./turns.ts";

interface Waiting {
  readonly document: CutDocument;
  readonly index: number;
  readonly passage: string;
}

/** Makes vectors in batches, whatever documents their chunks are of; their order stays. */
export class EmbedStage {
  readonly #run: IngestRun;
  readonly #output: Channel<readonly EmbeddedChunk[]>;
  #waiting: Waiting[] = [];

  constructor(run: IngestRun, output: Channel<readonly EmbeddedChunk[]>) {
    this.#run = run;
    this.#output = output;
  }

  async work(input: Channel<CutDocument>): Promise<void> {
    const { embedBatch } = this.#run.parts.settings;
    for await (const document of input) {
      // One without missing chunks has nothing to wait for.
      if (document.missing.length === 0) await this.#output.add([{ document, part: null }]);
      for (const { index, passage } of document.missing) {
        this.#waiting.push({ document, index, passage });
        if (this.#waiting.length >= embedBatch) await this.#embed();
      }
    }
    if (this.#waiting.length > 0) await this.#embed();
    this.#output.close();
  }

  async #embed(): Promise<void> {
    const { embedder, signal, books } = this.#run.parts;
    const batch = this.#waiting;
    this.#waiting = [];
    const passages = batch.map(({ passage }) => passage);
    const vectors = await this.#run.retried(() => embedder.embedDocuments(passages, { signal }));
    books.count("chunksEmbedded", batch.length);
    await this.#output.add(
      batch.map(({ document, index }, at) => {
        const vector = vectors[at];
        if (vector === undefined) throw new Error(`${embedder.name} gave too few vectors`);
        return { document, part: { index, vector } };
      }),
    );
    await books.progress();
    await otherWork();
  }
}
