/** Puts no file anywhere: a test says when a job ends, and how. */
import type { FileIngest, IngestJob, IngestOutcome } from "../../src/rag/http/file-ingest.ts";

/** A job that is under way. */
export interface OpenJob {
  readonly job: IngestJob;
  /** Names of its files. */
  readonly names: readonly string[];
  /** All of its files are stored, or ended in the given ways. */
  end(outcomes?: readonly IngestOutcome[]): void;
  fail(error: unknown): void;
}

export class ScriptedIngest implements FileIngest {
  /** Jobs that are under way, the oldest first. */
  readonly open: OpenJob[] = [];
  /** Files whose chunks were removed, as `corpus file`. */
  readonly removed: string[] = [];
  /** What `remove` throws, while it is set. */
  removeError: unknown = null;

  ingest(job: IngestJob, signal: AbortSignal): Promise<readonly IngestOutcome[]> {
    return new Promise((resolve, reject) => {
      const leave = () => void this.open.splice(this.open.indexOf(open), 1);
      const stored: IngestOutcome = { state: "stored", usageBytes: 7 };
      const open: OpenJob = {
        ...{ job, names: job.files.map(({ filename }) => filename) },
        end: (outcomes = job.files.map(() => stored)) => {
          leave();
          resolve(outcomes);
        },
        fail: (error) => {
          leave();
          reject(error);
        },
      };
      this.open.push(open);
      signal.addEventListener("abort", () => open.fail(signal.reason));
    });
  }

  async remove(corpus: string, fileId: string): Promise<void> {
    if (this.removeError !== null) throw this.removeError;
    this.removed.push(`${corpus} ${fileId}`);
  }

  async texts(): Promise<AsyncIterable<readonly string[]>> {
    throw new Error("No file is anywhere");
  }

  fileIdOf(documentId: string): string {
    return documentId;
  }
}
