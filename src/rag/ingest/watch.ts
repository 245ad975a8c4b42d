/** A corpus follows files while they change. */
import { systemTimer, type Timer } from "#base";
import { FolderWatch } from "#rag/readers";
import type { IngestEvent } from "./events.ts";
import type { Attention } from "./ingest-run.ts";
import { Ingestion, type IngestOptions } from "./ingestion.ts";

/** Changes are waited for until there were none for so long, but no longer than the second time. */
const QUIET_MS = 200;
const QUIET_MS_MAX = 5000;

/**
 * Ingests, and again what changed whenever files change; each round ends with a report. Ends
 * without an error when the signal is aborted, and with one where a round fails or a folder cannot
 * be watched. Addresses are read once.
 */
export async function* watch(
  paths: readonly string[],
  options: IngestOptions & { readonly signal: AbortSignal },
): AsyncGenerator<IngestEvent, void> {
  const { signal, timer = systemTimer } = options;
  const ingestion = new Ingestion(paths, options);
  const folders = new FolderWatch();
  const rounds = new Rounds(folders);
  try {
    for (;;) {
      yield* ingestion.round(rounds.next());
      folders.dropOthers();
      await folders.changes(signal);
      await quiet(folders, timer, signal);
      if (signal.aborted) return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    folders.close();
  }
}

/** Waits while changes follow each other. */
async function quiet(folders: FolderWatch, timer: Timer, signal: AbortSignal): Promise<void> {
  let before = -1;
  for (let ms = 0; ms < QUIET_MS_MAX && folders.waiting !== before; ms += QUIET_MS) {
    before = folders.waiting;
    await new Promise<void>((resolve) => {
      const stop = () => {
        cancel();
        resolve();
      };
      signal.addEventListener("abort", stop);
      const cancel = timer.after(QUIET_MS, () => {
        signal.removeEventListener("abort", stop);
        resolve();
      });
    });
    if (signal.aborted) return;
  }
}

/** What each round looks at. */
class Rounds {
  readonly #folders: FolderWatch;
  /** Files that earlier rounds looked at. */
  readonly #known = new Set<string>();
  #count = 0;

  constructor(folders: FolderWatch) {
    this.#folders = folders;
  }

  next(): Attention {
    const changed = this.#folders.take();
    const isFirst = this.#count++ === 0;
    return {
      onFolder: (path, only) => this.#folders.add(path, only),
      isWanted: (path) => {
        const isNew = !this.#known.has(path);
        this.#known.add(path);
        return isNew || changed.has(path);
      },
      hasAddresses: isFirst,
    };
  }
}
