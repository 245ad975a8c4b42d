/** A server with OpenAI's API whose answers a test writes. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A request as it came. */
export interface SeenRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: {
    readonly model: string;
    readonly input: readonly string[];
    readonly dimensions?: number;
  };
}

/** What is answered; a function writes the answer's text itself. */
export interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface EmbeddingServer {
  readonly url: string;
  readonly seen: SeenRequest[];
  /** Requests that are answered now, and the most there were. */
  readonly load: { now: number; most: number };
}

/** Null: the connection is closed without an answer. */
export type Answering = (
  request: SeenRequest,
  number: number,
) => Answer | null | Promise<Answer | null>;

/** A vector of a text: its letters' places, so that texts have vectors of their own. */
export function vectorOf(text: string, dimensions = 4): number[] {
  return Array.from({ length: dimensions }, (_, i) => (text.charCodeAt(i % text.length) || 1) + i);
}

/** The right answer, in the reverse order of the texts, which an index tells. */
export function rightAnswer({ body }: SeenRequest): Answer {
  const data = body.input.map((text, index) => ({
    object: "embedding",
    index,
    embedding: vectorOf(text, body.dimensions),
  }));
  return { body: { object: "list", data: data.reverse() } };
}

/** Starts one; it is closed with the test. */
export async function embeddingServer(
  answering: Answering = rightAnswer,
): Promise<EmbeddingServer> {
  const seen: SeenRequest[] = [];
  const load = { now: 0, most: 0 };
  const server = createServer(async (request, response) => {
    load.now += 1;
    load.most = Math.max(load.most, load.now);
    const one = {
      path: request.url ?? "",
      authorization: request.headers.authorization,
      body: JSON.parse(await bodyOf(request)),
    };
    seen.push(one);
    const answer = await answering(one, seen.length);
    load.now -= 1;
    if (answer === null) {
      request.socket.destroy();
      return;
    }
    const { status = 200, headers = {}, body } = answer;
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, seen, load };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
