import { describe, expect, test } from "vitest";
import { readRequest } from "../../../src/cluster/router/generation-request.ts";
import { markedBody, type PrivateFields } from "../../../src/cluster/router/worker-body.ts";

const fields: PrivateFields = {
  ...{
    promptTokenIds: null,
    seed: 5,
    created: 7,
    progress: null,
    cachedTokens: 0,
    kvSource: null,
    roleEpoch: null,
  },
};

function bodyOf(path: string, body: object, more: Partial<PrivateFields> = {}): unknown {
  const parts = { headers: {}, id: "a", sessionHeader: "x-session" };
  const request = readRequest({ ...parts, path, body, text: JSON.stringify(body) });
  return JSON.parse(markedBody(request, { ...fields, ...more }));
}

const chat = "/v1/chat/completions";
const completions = "/v1/completions";

describe("[CL80] what a worker gets of a client's body", () => {
  const messages = [
    { role: "user", content: "one" },
    { role: "assistant", content: "two" },
  ];

  test("a chat as it came, and the private field", () => {
    const perigee = { seed: 5, created: 7 };
    expect(bodyOf(chat, { messages, n: 2 })).toEqual({ perigee, messages, n: 2 });
    expect(bodyOf(chat, {})).toEqual({ perigee });
    const streamed = { ...perigee, markers: true };
    expect(bodyOf(chat, { stream: true })).toEqual({ perigee: streamed, stream: true });
  });

  test("ids instead of the prompt, and the last message for an echo", () => {
    const ids = { promptTokenIds: [[1, 2, 3]] };
    expect(bodyOf(chat, { messages, echo: true }, ids)).toEqual({
      ...{ perigee: { seed: 5, created: 7, prompt_token_ids: [1, 2, 3] }, echo: true },
      messages: messages.slice(-1),
    });
    expect(bodyOf(completions, { prompt: "one", n: 2 }, ids)).toEqual({
      ...{ perigee: { seed: 5, created: 7 }, prompt: [[1, 2, 3]], n: 2 },
    });
  });

  test("an echoed prompt stays a text", () => {
    const body = { prompt: "one", echo: true };
    expect(bodyOf(completions, body, { promptTokenIds: [[1]] })).toMatchObject(body);
  });

  test("what another worker generated, by choice", () => {
    const progress = [
      { ids: "1,2", tokens: 2, ended: true },
      { ids: "", tokens: 0, ended: false },
    ];
    expect(bodyOf(chat, { stream: true }, { progress, cachedTokens: 16 })).toMatchObject({
      perigee: {
        ...{ markers: true, cached_tokens: 16 },
        continue: [
          { token_ids: "1,2", ended: true },
          { token_ids: "", ended: false },
        ],
      },
    });
  });
});
