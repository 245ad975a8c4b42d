/** Small questions to workers, beside the requests of clients. */
import type { IncomingHttpHeaders } from "node:http";
import { EngineError } from "#base";
import { failureText } from "#cluster/http";
import type { WorkerLink } from "./worker-link.ts";

const ANSWER_BYTES_MAX = 16 * 2 ** 20;

export interface WorkerQuestion {
  readonly method: "DELETE" | "GET" | "POST";
  readonly path: string;
  /** JSON; null: none. */
  readonly body: string | null;
  readonly timeoutMs: number;
  /** Default: none of its own. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WorkerWords {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Asks, and waits for at most 16 MiB. Throws WORKER_FAILED. */
export function askWorker(link: WorkerLink, question: WorkerQuestion): Promise<WorkerWords> {
  const { method, path, body, timeoutMs } = question;
  const headers = {
    ...question.headers,
    ...link.headers,
    ...(body === null ? {} : { "content-type": "application/json" }),
  };
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    let head: { status: number; headers: IncomingHttpHeaders } = { status: 0, headers: {} };
    const call = link.upstream.send(
      { method, path, headers, body },
      {
        onHead: (status, answered) => {
          head = { status, headers: answered };
        },
        onData: (part) => {
          bytes += part.length;
          if (bytes > ANSWER_BYTES_MAX) call.abort(new Error("too long an answer"));
          else parts.push(Buffer.from(part));
        },
        onEnd: () => {
          clearTimeout(timer);
          resolve({ ...head, text: Buffer.concat(parts).toString("utf8") });
        },
        onFailure: (cause) => {
          clearTimeout(timer);
          const why = failureText(cause);
          const message = `Cannot ask worker ${link.info.id} for ${path}: ${why}`;
          reject(new EngineError("WORKER_FAILED", message, { cause }));
        },
      },
    );
    const timer = setTimeout(() => call.abort(new Error("no answer in time")), timeoutMs);
  });
}
