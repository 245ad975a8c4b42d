import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { readUploadForm } from "../../../src/rag/http/upload-form.ts";
import type { Upload } from "../../../src/rag/http/uploaded-files.ts";

const fileBytesMax = 100_000;
let folder: string;
let server: Server;
/** What became of the last form. */
let outcome: Promise<Upload> = Promise.reject(new Error("none"));
outcome.catch(() => {});
/** The last form has been read to its end, by whomever. */
let ended: Promise<void> = Promise.resolve();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-upload-"));
  server = createServer((request, response) => {
    ended = new Promise((resolve) => request.once("end", resolve));
    outcome = read(request, response);
    outcome.then(
      () => response.end("ok"),
      (error: { status?: number }) => {
        response.statusCode = error.status ?? 400;
        response.end(String(error));
      },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function read(request: IncomingMessage, response: ServerResponse): Promise<Upload> {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort(new Error("left"));
  });
  return await readUploadForm(request, { folder, fileBytesMax, signal: controller.signal });
}

function post(body: string | Buffer | ReadableStream, type = "multipart/form-data; boundary=b") {
  const { port } = server.address() as AddressInfo;
  const init = { method: "POST", headers: { "content-type": type }, body, duplex: "half" };
  return fetch(`http://127.0.0.1:${port}/`, init as RequestInit);
}

const field = (name: string, value: string) =>
  `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const file = (content: string, name = "a.txt", more = "") =>
  `--b\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\n${more}\r\n${content}\r\n`;
const purpose = field("purpose", "assistants");
const END = "--b--\r\n";

test("[RG103] a form is a file on the disk, whatever the order of its fields", async () => {
  for (const body of [purpose + file("text") + END, file("text") + purpose + END]) {
    const answer = await post(body);
    expect(await answer.text()).toBe("ok");
    const upload = await outcome;
    expect(upload).toMatchObject({ filename: "a.txt", purpose: "assistants", bytes: 4 });
    expect(upload.hash).toBe(createHash("sha256").update("text").digest("hex"));
    expect(readFileSync(upload.path, "utf8")).toBe("text");
    rmSync(upload.path);
  }
  const later =
    field("expires_after[anchor]", "created_at") + field("expires_after[seconds]", "3600");
  await post(purpose + later + file("", "é😀.md") + END);
  const upload = await outcome;
  expect(upload).toMatchObject({ bytes: 0, expiresAfterSeconds: 3600, filename: "é😀.md" });
  rmSync(upload.path);
});

test.for<[string, string, string, number]>([
  ["no file", purpose + END, "file", 400],
  ["no purpose", file("a") + END, "purpose", 400],
  ["another purpose", file("a") + field("purpose", "fine-tune") + END, "fine-tune", 400],
  ["an unknown field", purpose + field("model", "x") + file("a") + END, "model", 400],
  ["a file of another name", purpose + file("a").replace('"file"', '"data"') + END, "file", 400],
  ["two files", purpose + file("a") + file("b") + END, "one file", 400],
  ["a long file", purpose + file("x".repeat(fileBytesMax + 1)) + END, "100000 bytes", 413],
  ["a long field", field("purpose", "x".repeat(2000)) + file("a") + END, "1024", 413],
  ["many fields", field("f", "").repeat(20) + END, "16 fields", 413],
  ["no end", purpose + file("a"), "multipart", 400],
  ["an end within a file", `${purpose}${file("abc").slice(0, -4)}`, "multipart", 400],
  [
    "a wrong expiry",
    purpose + field("expires_after[seconds]", "1") + file("a") + END,
    "anchor",
    400,
  ],
  ["nothing", "", "multipart", 400],
  ["other text", "hello", "multipart", 400],
  ["the end alone", END, "", 400],
])("[RG103] a form with %s is refused, and leaves nothing", async ([, body, words, status]) => {
  const [set, clear] = [vi.spyOn(globalThis, "setTimeout"), vi.spyOn(globalThis, "clearTimeout")];
  onTestFinished(() => void vi.restoreAllMocks());
  const answer = await post(body);
  expect(answer.status).toBe(status);
  expect(await answer.text()).toContain(words);
  expect(readdirSync(folder)).toEqual([]);
  await ended;
  await new Promise((resolve) => setImmediate(resolve));
  // A timer that is left keeps a server from ending.
  const timers = set.mock.calls.flatMap(([, ms], at) =>
    ms === 60_000 ? [set.mock.results[at]?.value] : [],
  );
  const cleared = clear.mock.calls.map(([timer]) => timer);
  expect(timers.filter((timer) => !cleared.includes(timer))).toEqual([]);
});

test.for(["multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=b"])(
  "[RG103] a form of the type %s is refused",
  async (type) => {
    expect((await post(purpose + END, type)).status).toBeGreaterThanOrEqual(400);
    expect(readdirSync(folder)).toEqual([]);
  },
);

test("[RG103] headers and bodies without end are cut off", { timeout: 30_000 }, async () => {
  for (const start of [`--b\r\nx: `, `${purpose}${file("").slice(0, -2)}`, "x", "--b\r\n"]) {
    let sent = 0;
    const piece = Buffer.alloc(16_384, "y");
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(Buffer.from(start)),
      pull: (controller) => {
        sent += piece.length;
        if (sent > 50 * 2 ** 20) controller.error(new Error("nothing ends it"));
        else controller.enqueue(piece);
      },
      cancel: () => {},
    });
    const answer = await Promise.race([post(body), outcomeOf()]);
    expect(typeof answer === "number" ? answer : answer.status).toBe(413);
    expect(sent).toBeLessThan(50 * 2 ** 20);
    expect(readdirSync(folder)).toEqual([]);
  }
});

/** The status of the last form's refusal: a client that goes on writing may not read it. */
async function outcomeOf(): Promise<number> {
  const before = outcome;
  while (outcome === before) await new Promise((resolve) => setTimeout(resolve, 5));
  return await outcome.then(
    () => 200,
    (error: { status?: number }) => error.status ?? 400,
  );
}

test("[RG103] a client that leaves within its file leaves nothing", async () => {
  const { port } = server.address() as AddressInfo;
  const before = outcome;
  const socket = connect(port, "127.0.0.1");
  const head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: multipart/form-data; boundary=b\r\n";
  socket.write(`${head}content-length: 90000\r\n\r\n${purpose}${file("x".repeat(40_000))}`);
  await expect.poll(() => outcome !== before && readdirSync(folder).length).toBe(1);
  socket.destroy();
  await expect(outcome).rejects.toThrow();
  expect(readdirSync(folder)).toEqual([]);
});
