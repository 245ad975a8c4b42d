import { expect, test } from "vitest";
import { readRequest } from "../../../src/cluster/router/generation-request.ts";

const chat = (body: object) =>
  readRequest({
    ...{ path: "/v1/chat/completions", text: JSON.stringify(body), body, headers: {} },
    ...{ id: "a", sessionHeader: "x-session" },
  });
const search = { type: "file_search", vector_store_ids: ["vs_1"] };

test("[RG112] a router says that vector stores are of one server", () => {
  const body = { messages: [{ role: "user", content: "Hi" }], tools: [search] };
  expect(() => chat(body)).toThrow("ask that server itself");
  expect(chat({ ...body, tool_choice: "none" }).kind).toBe("chat");
  const tools = [{ type: "function", function: { name: "file_search" } }];
  expect(chat({ ...body, tools }).kind).toBe("chat");
});
