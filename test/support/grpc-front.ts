/** A gRPC server before another one, which answers some calls itself: failures that it never has. */
import {
  connect,
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";

/** What is answered instead of what the server would. */
export type PlantedAnswer =
  /** A status of gRPC, e.g. 16, without a message. */
  | { readonly type: "status"; readonly code: number; readonly reason: string }
  /** A message of these bytes. */
  | { readonly type: "message"; readonly bytes: Uint8Array }
  /** Nothing, for as long as the connection is open. */
  | { readonly type: "silence" };

/** Decides by the call's method, e.g. `Upsert`; null: the server answers. */
export type Plant = (method: string, headers: IncomingHttpHeaders) => PlantedAnswer | null;

export class GrpcFront {
  readonly #server: Http2Server;
  readonly #target: string;
  readonly #sessions = new Set<{ destroy(): void }>();
  plant: Plant = () => null;
  /** Methods that were called, in order. */
  readonly calls: string[] = [];

  private constructor(server: Http2Server, targetPort: number) {
    this.#server = server;
    this.#target = `http://127.0.0.1:${targetPort}`;
    server.on("session", (session) => {
      this.#sessions.add(session);
      session.on("error", () => {});
      session.once("close", () => this.#sessions.delete(session));
    });
    server.on("stream", (stream, headers) => this.#answer(stream, headers));
  }

  static async start(
    targetPort: number,
    tls: { readonly key: string; readonly cert: string } | null = null,
  ): Promise<GrpcFront> {
    const server = tls === null ? createServer() : createSecureServer(tls);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new GrpcFront(server as Http2Server, targetPort);
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("It listens at a port");
    return address.port;
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) session.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on("error", () => {});
    const method = String(headers[":path"]).split("/").at(-1) ?? "";
    this.calls.push(method);
    const planted = this.plant(method, headers);
    if (planted === null) this.#forward(stream, headers);
    else if (planted.type !== "silence") answerWith(stream, planted);
  }

  #forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const session = connect(this.#target);
    this.#sessions.add(session);
    session.on("error", () => stream.destroy());
    session.once("close", () => this.#sessions.delete(session));
    const call = session.request({ ...headers, ":scheme": "http", ":authority": "localhost" });
    call.on("error", () => stream.destroy());
    let trailers: IncomingHttpHeaders = {};
    call.on("response", (answer) => {
      if (stream.destroyed) return;
      const { ":status": status, ...rest } = answer;
      stream.respond({ ":status": status, ...rest }, { waitForTrailers: true });
    });
    call.on("trailers", (found) => {
      trailers = found;
    });
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.pipe(call);
    call.on("data", (bytes) => stream.write(bytes));
    call.once("end", () => {
      stream.end();
      session.close();
    });
  }
}

function answerWith(
  stream: ServerHttp2Stream,
  planted: Exclude<PlantedAnswer, { type: "silence" }>,
): void {
  const isMessage = planted.type === "message";
  const trailers = isMessage
    ? { "grpc-status": "0" }
    : { "grpc-status": String(planted.code), "grpc-message": encodeURIComponent(planted.reason) };
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  if (!isMessage) {
    stream.end();
    return;
  }
  const head = Buffer.alloc(5);
  head.writeUInt32BE(planted.bytes.length, 1);
  stream.end(Buffer.concat([head, planted.bytes]));
}

/** Fields of a protobuf message: numbers as varints, texts and messages by their length. */
export function protobuf(
  fields: readonly (readonly [number: number, value: number | string | Uint8Array])[],
): Uint8Array {
  return Buffer.concat(
    fields.map(([field, value]) => {
      if (typeof value === "number") return Buffer.concat([varint(field * 8), varint(value)]);
      const bytes = typeof value === "string" ? Buffer.from(value) : value;
      return Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
    }),
  );
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
