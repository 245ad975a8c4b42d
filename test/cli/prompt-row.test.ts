import { expect, test } from "vitest";
import { parsePromptLine } from "../../src/cli/prompt-row.ts";
import { samplingFlags } from "../../src/cli/sampling-flags.ts";

const check = { sampling: samplingFlags({ maxTokens: 128 }), flags: { temperature: 0 } };
const place = "prompts.jsonl, line 3";
const parse = (line: string) => parsePromptLine(line, place, check);

test("a line is a text, or an object with text or token ids", () => {
  expect(parse('"Hello"')).toEqual({ prompt: "Hello", sampling: {}, place });
  expect(parse('{"prompt": "Hello"}')).toEqual({ prompt: "Hello", sampling: {}, place });
  const ids = { prompt: { promptTokenIds: [4, 5] }, sampling: {}, place };
  expect(parse('{"prompt_token_ids": [4, 5]}')).toEqual(ids);
  expect(parse('{"promptTokenIds": [4, 5]}')).toEqual(ids);
});

test("sampling fields stand beside it, in Python's or TypeScript's writing", () => {
  const structure = { json: { some_name: 1 } };
  const line = { prompt: "x", max_tokens: 3, topK: 4, structured_output: structure };
  expect(parse(JSON.stringify(line)).sampling).toEqual({
    maxTokens: 3,
    topK: 4,
    structuredOutput: structure,
  });
  const any = { prompt: "x", structured_output: { json_object: true } };
  expect(parse(JSON.stringify(any)).sampling).toEqual({ structuredOutput: { jsonObject: true } });
});

test("retention stands beside it too, in either writing", () => {
  const ranges = [{ start: 0, end: 4, priority: 90, duration_ms: 5 }];
  const row = parse(JSON.stringify({ prompt: "x", retention: { ranges, decodePriority: 10 } }));
  expect(row.sampling).toEqual({});
  expect(row.retention).toEqual({
    ranges: [{ start: 0, end: 4, priority: 90, durationMs: 5 }],
    decodePriority: 10,
    decodeDurationMs: null,
  });
});

test("beams are fields like others", () => {
  const line = { prompt: "x", beam_width: 4, early_stopping: "never", n: 2 };
  expect(parse(JSON.stringify(line)).sampling).toEqual({
    beamWidth: 4,
    earlyStopping: "never",
    n: 2,
  });
});

test.for<[string, string]>([
  ["{", "wanted JSON"],
  ["[1]", "wanted a text or an object"],
  ["{}", 'wanted either "prompt" (text) or "prompt_token_ids"'],
  ['{"prompt": "x", "prompt_token_ids": [1]}', "wanted either"],
  ['{"prompt_token_ids": []}', "wanted either"],
  ['{"prompt_token_ids": [-1]}', "wanted either"],
  ['{"prompt": "x", "max_token": 3}', "max_token is not a known field; known fields are"],
  ['{"prompt": "x", "max_tokens": 0}', "max_tokens must be more than 0, current value is 0"],
  ['{"prompt": "x", "n": 2}', "n must be 1 with greedy sampling (temperature 0)"],
  ['{"prompt": "x", "beam_width": 2, "n": 3}', "n must be at most beamWidth (2), current"],
  ['{"prompt": "x", "retention": {"ranges": [{"start": -1}]}}', "retention: ranges.0.start must"],
  ['{"prompt": "x", "retention": {"rangs": []}}', "retention: rangs is not a known field"],
  ['{"prompt": "x", "structured_output": {"jso": 1}}', "structured_output.jso is not a known"],
])("%s is refused with file, line and field: %s", ([line, problem]) => {
  expect(() => parse(line)).toThrow(`Cannot read ${place}: ${problem}`);
});
