import { expect, test } from "vitest";
import {
  itemIdOf,
  newResponseId,
  responseOfItem,
  serverTag,
  tagOfResponse,
} from "../../../../src/server/openai/responses/response-ids.ts";

const UUID = "8f14e45f-ceea-467f-a0b6-2f3f1d2c3b4a";

test("an item's id names its response, and that the start of a server", () => {
  const tag = serverTag("worker-1", "epoch-1");
  const id = newResponseId(tag, UUID);
  expect(tagOfResponse(id)).toBe(tag);
  expect(responseOfItem(itemIdOf(id, "msg", 0))).toBe(id);
  expect(responseOfItem(itemIdOf(id, "fco", "i12"))).toBe(id);
  expect(serverTag("worker-1", "epoch-2")).not.toBe(tag);
});

test.for(["", "resp_", "resp_123", "msg_1", `resp_${"g".repeat(44)}`, "__proto__"])(
  "%j is no id of ours",
  (id) => {
    expect(tagOfResponse(id)).toBeNull();
    expect(responseOfItem(id)).toBeNull();
  },
);
