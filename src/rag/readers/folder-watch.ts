/** Changes in folders, noticed by the system. */
import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import { EngineError, messageOf } from "#base";

/**
 * Watches folders one by one, so that ignored ones cost nothing, and collects paths in them that
 * may have changed. Folders on network drives tell nothing of changes made elsewhere.
 */
export class FolderWatch {
  readonly #watchers = new Map<string, FSWatcher>();
  #visited = new Set<string>();
  #changed = new Set<string>();
  #failure: EngineError | null = null;
  #onChange: (() => void) | null = null;

  /** Watches a folder from now on; `only`: of its entries this one counts. */
  add(folder: string, only: string | null): void {
    this.#visited.add(folder);
    if (this.#watchers.has(folder)) return;
    try {
      const watcher = watch(folder, (_, name) => {
        if (only === null || name === null || name === only) this.#note(folder, name);
      });
      watcher.on("error", () => this.#drop(folder));
      this.#watchers.set(folder, watcher);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      // A folder that is gone is noticed in the one above it.
      if (code === "ENOENT" || code === "ENOTDIR") return;
      const message =
        `Cannot watch ${JSON.stringify(folder)}: the system must have a watcher left, ` +
        `${messageOf(cause)}; raise its limit (fs.inotify.max_user_watches of Linux)`;
      this.#failure = new EngineError("IO", message, { cause });
      this.#onChange?.();
    }
  }

  /** Ends watching folders that were not added since the last call. */
  dropOthers(): void {
    for (const folder of [...this.#watchers.keys()]) {
      if (!this.#visited.has(folder)) this.#drop(folder);
    }
    this.#visited = new Set();
  }

  /** Paths since the last call. Throws IO where a folder could not be watched. */
  take(): ReadonlySet<string> {
    if (this.#failure !== null) throw this.#failure;
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Waits until something changed since the last `take`, or the signal is aborted. */
  async changes(signal: AbortSignal): Promise<void> {
    const wake = () => this.#onChange?.();
    signal.addEventListener("abort", wake);
    while (this.#changed.size === 0 && this.#failure === null && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    signal.removeEventListener("abort", wake);
  }

  /** Number of changes that wait to be taken; grows while something changes. */
  get waiting(): number {
    return this.#changed.size;
  }

  close(): void {
    for (const folder of [...this.#watchers.keys()]) this.#drop(folder);
  }

  #note(folder: string, name: string | null): void {
    this.#changed.add(name === null ? folder : join(folder, name));
    this.#onChange?.();
  }

  #drop(folder: string): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
  }
}
