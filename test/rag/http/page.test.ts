import { expect, test } from "vitest";
import { makeId } from "../../../src/rag/http/identifiers.ts";
import { pageBody, pageOf, pageRequest } from "../../../src/rag/http/page.ts";
import { closeRagServers, serveRag, textFile } from "../../support/rag-server.ts";

closeRagServers();

const rules = { kind: "file", limitDefault: 2, limitMax: 4 } as const;
const list = [1, 2, 3, 5, 8].map((serial) => ({ serial, id: makeId("file", serial) }));
const idAt = (serial: number) => makeId("file", serial);

test.for<[string, object, number[], boolean]>([
  ["the newest first", {}, [8, 5], true],
  ["the oldest first", { order: "asc" }, [1, 2], true],
  ["as many as wanted", { limit: "4" }, [8, 5, 3, 2], true],
  ["behind a cursor", { after: idAt(5) }, [3, 2], true],
  ["behind a cursor, oldest first", { after: idAt(3), order: "asc" }, [5, 8], false],
  ["behind one that was deleted", { after: idAt(6) }, [5, 3], true],
  ["before a cursor", { before: idAt(2), order: "asc" }, [1], false],
  ["right before a cursor", { before: idAt(8), order: "asc" }, [3, 5], true],
  ["right before a cursor, newest first", { before: idAt(1) }, [3, 2], true],
  ["between two", { after: idAt(1), before: idAt(8), order: "asc" }, [2, 3], true],
])("[RG106] a page has %s", ([, query, serials, more]) => {
  const page = pageOf(list, pageRequest(query, rules));
  expect(page.items.map(({ serial }) => serial)).toEqual(serials);
  expect(page.more).toBe(more);
});

test("[RG106] an empty list has no first and no last", () => {
  const page = pageOf([], pageRequest({}, rules));
  expect(pageBody(page, (item: { id: string }) => item)).toEqual({
    ...{ object: "list", data: [], has_more: false, first_id: null, last_id: null },
  });
});

test.for([
  ["limit", { limit: "0" }],
  ["limit", { limit: "5" }],
  ["limit", { limit: "1e3" }],
  ["order", { order: "up" }],
  ["after", { after: "file-1" }],
  ["before", { before: makeId("store", 1) }],
  ["offset", { offset: "1" }],
] as const)("[RG106] a wrong %s is refused by name: %j", ([name, query]) => {
  expect(() => pageRequest(query, rules)).toThrow(name);
});

test("[RG106] the client deletes what it lists", async () => {
  const { client } = await serveRag();
  for (let n = 0; n < 5; n++) await client.vectorStores.create({ name: `${n}` });
  const names: string[] = [];
  for await (const store of client.vectorStores.list({ limit: 2, order: "asc" })) {
    names.push(store.name);
    await client.vectorStores.delete(store.id);
  }
  expect(names).toEqual(["0", "1", "2", "3", "4"]);
  const user = { purpose: "user_data" } as const;
  await client.files.create({ file: textFile("a.txt", "a"), ...user });
  await client.files.create({ file: textFile("b.txt", "b"), purpose: "assistants" });
  expect((await client.files.list(user)).data.map(({ filename }) => filename)).toEqual(["a.txt"]);
});
