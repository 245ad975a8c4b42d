import { expect, test } from "vitest";
import { EngineError } from "#base";
import { HttpError, httpFailure } from "../../src/server/http-errors.ts";

test("the engine's field names become the request's, in message and param", () => {
  const error = new EngineError("INVALID_ARGUMENT", "Cannot use topP: too big", { param: "topP" });
  expect(httpFailure(error)).toEqual({
    status: 400,
    body: {
      error: {
        message: "Cannot use top_p: too big",
        type: "invalid_request_error",
        param: "top_p",
        code: "invalid_argument",
      },
    },
    retryAfterSeconds: null,
  });
});

test.for([
  ["QUEUE_FULL", 429, 1],
  ["SHUTTING_DOWN", 503, 5],
  ["ENGINE_DEAD", 503, null],
  ["PROMPT_TOO_LONG", 400, null],
  ["GRAMMAR_INVALID", 400, null],
  ["UNAUTHORIZED", 401, null],
  ["MODEL_NOT_FOUND", 404, null],
] as const)("%s is a %i", ([code, status, retryAfterSeconds]) => {
  expect(httpFailure(new EngineError(code, "Cannot"))).toMatchObject({ status, retryAfterSeconds });
});

test.for([
  ["an error of ours", new TypeError("x is not a function at /secret/path.ts")],
  ["an engine's failure", new EngineError("IO", "Cannot read /secret/path")],
  ["something that is no error", "/secret/path"],
] as const)("%s is a 500 that shows nothing of it", ([, thrown]) => {
  const { status, body } = httpFailure(thrown);
  expect(status).toBe(500);
  expect(body.error.type).toBe("server_error");
  expect(JSON.stringify(body)).not.toContain("secret");
});

test("what HTTP alone knows keeps its status and code", () => {
  const { status, body } = httpFailure(new HttpError(405, "method_not_allowed", "Cannot GET /x"));
  expect(status).toBe(405);
  expect(body.error).toMatchObject({ code: "method_not_allowed", message: "Cannot GET /x" });
});
