import { expect, test } from "vitest";
import { closeRagServers, serveRag, textFile } from "../../support/rag-server.ts";

closeRagServers();

const orlen = "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.";
const kesset = "The Kesset bridge is 412 metres long. It was designed by Joren Hask.";
const quick = { pollIntervalMs: 20 };

test("[RG100] the official client creates, uploads, polls, searches and deletes", async () => {
  const { client } = await serveRag();
  const store = await client.vectorStores.create({ name: "bridges", metadata: { team: "a" } });
  expect(store).toMatchObject({
    ...{ object: "vector_store", name: "bridges", status: "completed", metadata: { team: "a" } },
    file_counts: { in_progress: 0, completed: 0, failed: 0, cancelled: 0, total: 0 },
  });
  const file = await client.vectorStores.files.uploadAndPoll(
    store.id,
    textFile("orlen.md", `# Orlen\n\n${orlen}`),
    quick,
  );
  expect(file).toMatchObject({
    ...{ object: "vector_store.file", status: "completed", last_error: null },
    vector_store_id: store.id,
  });
  expect(file.usage_bytes).toBeGreaterThan(orlen.length);
  const batch = await client.vectorStores.fileBatches.uploadAndPoll(
    store.id,
    { files: [textFile("kesset.txt", kesset), textFile("empty.txt", " ")] },
    quick,
  );
  expect(batch).toMatchObject({
    ...{ object: "vector_store.files_batch", status: "completed" },
    file_counts: { completed: 1, failed: 1, total: 2 },
  });
  const found = await client.vectorStores.search(store.id, { query: "Who designed Kesset?" });
  expect(found.data[0]).toMatchObject({
    ...{ filename: "kesset.txt", attributes: {} },
    content: [{ type: "text", text: kesset }],
  });
  expect((await client.vectorStores.retrieve(store.id)).file_counts.total).toBe(3);
  const content = await client.vectorStores.files.content(file.id, { vector_store_id: store.id });
  expect(content.data.map(({ text }) => text).join("\n")).toContain("Tamsin Vorle");
  const failed = await client.vectorStores.fileBatches.listFiles(batch.id, {
    ...{ vector_store_id: store.id, filter: "failed" },
  });
  expect(failed.data.map((one) => one.last_error)).toEqual([
    { code: "invalid_file", message: expect.stringContaining("empty.txt") },
  ]);
  expect(await client.vectorStores.files.delete(file.id, { vector_store_id: store.id })).toEqual({
    ...{ id: file.id, object: "vector_store.file.deleted", deleted: true },
  });
  const left = await client.vectorStores.search(store.id, { query: "Orlen bridge architect" });
  expect(left.data.map((result) => result.filename)).toEqual(["kesset.txt"]);
  expect(await (await client.files.content(file.id)).text()).toBe(`# Orlen\n\n${orlen}`);
  expect(await client.vectorStores.delete(store.id)).toMatchObject({ deleted: true });
  await expect(client.vectorStores.retrieve(store.id)).rejects.toMatchObject({ status: 404 });
  for await (const one of client.files.list()) {
    expect(await client.files.delete(one.id)).toMatchObject({ id: one.id, deleted: true });
  }
  expect((await client.files.list()).data).toEqual([]);
});
