import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";

/** A server of another engine, as far as a router asks it. */
export interface ForeignWorker {
  readonly url: string;
  /** Paths of all POST requests, in order. */
  readonly asked: string[];
  /** What the questions for tokens were. */
  readonly questions: Record<string, unknown>[];
}

/** What a dialect answers. */
export interface ForeignDialect {
  readonly owner: string;
  readonly models?: readonly object[];
  /** GET routes beside those of OpenAI. */
  readonly pages?: Readonly<Record<string, string>>;
  /** POST routes; a number is a status without a body. Others are 404. */
  readonly answers: Readonly<Record<string, (body: Record<string, unknown>) => unknown>>;
}

const open: Server[] = [];

const ANSWER = { choices: [], usage: { prompt_tokens: 4, completion_tokens: 1 } };

export async function foreignWorker(dialect: ForeignDialect): Promise<ForeignWorker> {
  const asked: string[] = [];
  const questions: Record<string, unknown>[] = [];
  const models = dialect.models ?? [{ id: "m", owned_by: dialect.owner, max_model_len: 100_000 }];
  const pages: Readonly<Record<string, string>> = {
    "/health": "",
    "/v1/models": JSON.stringify({ object: "list", data: models }),
    ...dialect.pages,
  };
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    if (request.method === "GET") {
      const page = pages[path];
      response.writeHead(page === undefined ? 404 : 200).end(page);
      return;
    }
    let text = "";
    request.on("data", (part: Buffer) => {
      text += part.toString();
    });
    request.on("end", () => {
      asked.push(path);
      const answer = dialect.answers[path];
      const isGeneration = path === "/v1/chat/completions" || path === "/v1/completions";
      const body = JSON.parse(text);
      if (!isGeneration && answer !== undefined) questions.push(body);
      const value = answer?.(body) ?? (isGeneration ? ANSWER : 404);
      if (value === SILENT) return;
      response.setHeader("content-type", "application/json");
      if (typeof value === "number") response.writeHead(value).end("{}");
      else response.end(JSON.stringify(value));
    });
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, asked, questions };
}

/** An answer that never comes. */
export const SILENT = Symbol("silent");

/** Closes all that were started; registers itself for after each test of the importing file. */
export function closeForeignWorkers(): void {
  afterEach(() => {
    for (const server of open.splice(0)) {
      server.close();
      server.closeAllConnections();
    }
  });
}
