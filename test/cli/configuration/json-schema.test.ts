import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import {
  keysOf,
  sectionsOf,
  withDescendants,
} from "../../../src/cli/configuration/command-path.ts";
import { configurationSchema } from "../../../src/cli/configuration/json-schema.ts";
import { loadProgram } from "../../../src/cli/program.ts";
import { perigeeInside } from "../perigee.ts";
import { temporaryFile } from "./settings-file.ts";

const root = await loadProgram("*");
const schema = configurationSchema(root);
const validate = new Ajv2020({ strict: false, formats: { uri: true } }).compile(schema);

describe("the schema takes what the commands take", () => {
  test.for([
    "port: 8000",
    "kv-pool-bytes: 1GiB",
    "kv-pool-bytes: 1073741824",
    "kv-pool-bytes: null",
    "serve: {port: 8000, device: cpu, prefix-caching: off, api-key: secret}",
    "serve: {api-key: [one, two]}",
    "bench: {prompts: 3, serve: {chat: true}}",
    "replay: {policy: lru, capacity: '10,inf'}",
    "early-stopping: never",
    "structured-output: {jsonObject: true}",
    "model: models/pocket",
    "policy: lru",
  ])("%s", (text) => {
    expect(validate(parse(text)), JSON.stringify(validate.errors)).toBe(true);
  });
});

test.for([
  "prot: 8000",
  "port: eighty",
  "port: 99999",
  "kv-pool-bytes: 1 parsec",
  "serve: {redis: a}",
  "device: gpu",
  "bench: {serve: {chat: perhaps}}",
])("the schema refuses what the commands refuse: %s", (text) => {
  expect(validate(parse(text))).toBe(false);
});

test("each key has a text for editors", () => {
  const untold = Object.entries(schema.$defs ?? {}).filter(
    ([, { description = "" }]) => !description,
  );
  expect(untold.map(([name]) => name)).toEqual([]);
});

test("a command's own section may have each of its settings", () => {
  for (const command of withDescendants(root)) {
    const names = [...sectionsOf(command).keys()];
    expect([...keysOf(command)].filter((key) => names.includes(key))).toEqual([]);
  }
});

test("a command's name is its section, not a flag of that name", () => {
  const worker = schema.properties?.worker;
  expect(worker).toMatchObject({ type: "object", additionalProperties: false });
  expect(validate({ route: { worker: ["http://a"] } })).toBe(true);
});

test("perigee config schema prints it", async () => {
  const { code, stdout } = await perigeeInside(["config", "schema"]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(schema)));
});

describe("perigee config check", () => {
  test("counts the settings of each command", async () => {
    const file = temporaryFile("good.yaml", "serve:\n  port: 1\nroute:\n  port: 2\n");
    const { code, stdout } = await perigeeInside(["config", "check", file]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: "ok perigee serve: 1 setting\nok perigee route: 1 setting\n",
    });
  });

  test("finds a wrong line of any section", async () => {
    const file = temporaryFile("bad.yaml", "serve:\n  port: 1\nroute:\n  prot: 2\n");
    const { code, stderr } = await perigeeInside(["config", "check", file]);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "line 4, column 3: prot is no setting of perigee route; did you mean port?",
    );
  });
});
