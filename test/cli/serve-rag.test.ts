/** `perigee serve --rag-store`: what a user starts, kills and starts again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, expect, onTestFinished, test } from "vitest";
import { layoutFolder, recordedLayout } from "../rag/embedders/recorded-layout.ts";
import { built, perigee } from "./perigee.ts";

/** A server over the folder; killed when the test is over. */
async function serving(
  folder: string,
  embedder: string,
): Promise<{ child: ChildProcess; client: OpenAI }> {
  const child = spawn(
    process.execPath,
    [
      ...["dist/cli/main.js", "serve", "--port", "0", "--device", "cpu", "--speculative", "off"],
      ...["--rag-store", folder, "--rag-embedder", embedder],
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.on("data", (chunk) => {
      text += String(chunk);
      const match = /serving \S+ at (http:[^\s"]+)/.exec(text);
      if (match?.[1] !== undefined) resolve(match[1]);
    });
    child.once("exit", () => reject(new Error(text)));
  });
  child.removeAllListeners("exit");
  return { child, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }) };
}

/** Long enough that it is on its way when the process is killed. */
function longText(): string {
  const bridges = Array.from({ length: 400 }, (_, n) => `Bridge ${n} is ${n} metres long.`);
  return bridges.map((text) => `## About it\n\n${text.repeat(4)}`).join("\n\n");
}

describe.runIf(built)("perigee serve --rag-store", () => {
  test("[RG101] a server that was killed goes on with the files on their way", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-serve-rag-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const embedder = layoutFolder("bert", recordedLayout("bert").embedders.MiniLM?.files ?? {});
    const first = await serving(folder, embedder);
    const store = await first.client.vectorStores.create({ name: "kept" });
    const file = await first.client.vectorStores.files.upload(
      store.id,
      new File([longText()], "bridges.md"),
    );
    expect(file.status).toBe("in_progress");
    const exited = once(first.child, "exit");
    first.child.kill("SIGKILL");
    await exited;

    const { client } = await serving(folder, embedder);
    expect((await client.vectorStores.retrieve(store.id)).name).toBe("kept");
    const inStore = { vector_store_id: store.id };
    const options = { pollIntervalMs: 50 };
    const done = await client.vectorStores.files.poll(store.id, file.id, options);
    expect(done).toMatchObject({ status: "completed", last_error: null });
    const { data } = await client.vectorStores.files.content(file.id, inStore);
    const texts = data.map(({ text }) => text ?? "").join("\n");
    for (const n of [0, 199, 399]) expect(texts).toContain(`Bridge ${n} is`);
    const found = await client.vectorStores.search(store.id, { query: "Bridge 123" });
    expect(found.data.map(({ content }) => content[0]?.text).join("\n")).toContain("Bridge 123 ");
  });

  test("[RG112] a store at an address asks for a folder for files", async () => {
    const { code, stderr } = await perigee(["serve", "--rag-store", "http://127.0.0.1:9"]);
    expect(code).toBe(2);
    expect(stderr).toContain("--rag-state");
  });
});
