/** Hostile requests to files, vector stores and `file_search`, beside ordinary streams. */
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, expect, onTestFinished, test } from "vitest";
import { Dice } from "../fuzz/dice.ts";
import { layoutFolder, recordedLayout } from "../rag/embedders/recorded-layout.ts";
import { full, sized } from "../support/full.ts";
import { type Answer, sendBody } from "./case-sender.ts";
import { type JsonFields, objectText } from "./json-text.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { filters, RAG_ROUTES, type RagRoute, ranking } from "./rag-values.ts";
import { fieldPaths } from "./request-schemas.ts";
import { ServedProcess } from "./served-process.ts";
import { textOf, type Value } from "./value-families.ts";

/** Hostile values of each field; all of them where everything is tested. */
const VALUES_EACH = full ? Number.POSITIVE_INFINITY : 3;
const FORMS = sized(80, 3000);
/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const PAUSE_RUNS = 5;
const MESSAGE_LENGTH_MAX = 700;

describe.each(RAG_ROUTES.map((route) => ({ ...route })))("$path", ({ schema, values }) => {
  test("[RG105] every field has hostile values, so that a new field is not forgotten", () => {
    expect(Object.keys(values).sort()).toEqual(fieldPaths(schema).sort());
  });
});

/** One request, which may be made again. */
interface Case {
  readonly name: string;
  send(): Promise<Answer>;
}

/** A served process with a store and a file in it. */
async function served() {
  const folder = mkdtempSync(join(tmpdir(), "perigee-hostile-rag-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const embedder = layoutFolder("bert", recordedLayout("bert").embedders.MiniLM?.files ?? {});
  const flags = ["--rag-store", folder, "--rag-embedder", embedder];
  const limits = ["--rag-file-bytes-max", "200000", "--rag-total-bytes-max", "2000000"];
  const server = await ServedProcess.start(".", [...flags, ...limits]);
  onTestFinished(() => server.kill());
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  const store = await client.vectorStores.create({});
  const file = await client.vectorStores.files.uploadAndPoll(
    store.id,
    new File(["The Orlen bridge was built in 1931."], "orlen.md"),
    { pollIntervalMs: 50 },
  );
  const named = (text: string) => text.replaceAll("STORE", store.id).replaceAll("FILE", file.id);
  return { server, client, named, storeId: store.id };
}

type Served = Awaited<ReturnType<typeof served>>;

function* bodyCases({ server, named }: Served, dice: Dice): Generator<Case> {
  for (const route of [...RAG_ROUTES, chatRoute()]) {
    for (const [field, { hostile, around = "$" }] of Object.entries(route.values)) {
      const [top = field] = field.split(/[.[]/, 1);
      for (const value of chosen(hostile, dice)) {
        const written = around.split("$").join(textOf(value));
        const beside: JsonFields = route.values[field]?.beside ?? {};
        const body = named(objectText({ ...route.body, ...beside, [top]: written }));
        const send = () => sendBody(server.url, named(route.path), body);
        yield { name: `${route.path} ${body.slice(0, 200)}`, send };
      }
    }
  }
}

/** Chats that search; only the tool's own fields are hostile. */
function chatRoute(): Omit<RagRoute, "schema"> {
  const tool = (more: string) => `[{"type":"file_search","vector_store_ids":["STORE"],${more}}]`;
  const inTool = Object.entries({ filters, ...ranking("$") }).map(([field, values]) => {
    const [top = field] = field.split(".", 1);
    return [`tools[].${field}`, { ...values, around: tool(`"${top}":${values.around ?? "$"}`) }];
  });
  return {
    path: "/v1/chat/completions",
    body: { messages: '[{"role":"user","content":"Orlen?"}]', max_tokens: "4" },
    values: Object.fromEntries(inTool),
  };
}

function chosen(values: readonly Value[], dice: Dice): readonly Value[] {
  if (values.length <= VALUES_EACH) return values;
  return Array.from({ length: VALUES_EACH }, () => dice.pick(values) ?? "null");
}

function* formCases({ server }: Served, dice: Dice): Generator<Case> {
  for (let at = 0; at < FORMS; at++) {
    const { form, type } = hostileForm(dice);
    yield {
      name: `form ${at}: ${form.subarray(0, 300).toString("latin1")}`,
      send: () => sendForm(server.url, form, type),
    };
  }
}

const START = '--b\r\ncontent-disposition: form-data; name="';
const names = ["a.txt", "../../x", "a\\u0000.md", "\u202eexe.md", "x".repeat(5000), '"', "", "é"];

/** A form that is right but for one thing, then with some bytes changed. */
function hostileForm(dice: Dice): { readonly form: Buffer; readonly type: string } {
  const name = dice.pick(names) ?? "";
  const content = dice.pick(["text", "", "x".repeat(150_000), "\r\n--b".repeat(2000), "\0\u00ff"]);
  const file = `${START}file"; filename="${name}"\r\n\r\n${content}\r\n`;
  const purpose = `${START}purpose"\r\n\r\nassistants\r\n`;
  const strange = [
    `${START}${"n".repeat(20_000)}"\r\n\r\n\r\n`,
    `--b\r\n${"h: v\r\n".repeat(3000)}\r\n\r\n`,
    `--b\r\n${"x".repeat(60_000)}\r\n\r\n`,
    `${START}a"\r\n\r\n\r\n`.repeat(500),
    `${START}file"; filename="b"\r\ncontent-type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n`,
    "--b",
    "",
  ];
  const pieces = [file, purpose, dice.pick(strange) ?? ""];
  if (dice.below(2) === 0) pieces.reverse();
  const form = Buffer.from(`${pieces.join("")}${dice.pick(["--b--\r\n", "", "--b"])}`, "latin1");
  for (let changes = dice.below(4); changes > 0; changes--) {
    form[dice.below(form.length)] = dice.below(256);
  }
  const types = ["b", "b", "b", "b", '"b"', "", "b; boundary=c", "x".repeat(3000)];
  return { form, type: `multipart/form-data; boundary=${dice.pick(types)}` };
}

function sendForm(url: string, form: Buffer, type: string): Promise<Answer> {
  return new Promise((resolve) => {
    const headers = { "content-type": type, "content-length": form.length };
    const options = { method: "POST", headers, agent: false };
    let text = "";
    const sent = httpRequest(`${url}/v1/files`, options, (answer) => {
      answer.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      const { statusCode: status = 0, headers: own } = answer;
      answer.on("end", () => resolve({ status, headers: own, text, failure: null }));
    });
    sent.on("error", (error) => {
      resolve({ status: 0, headers: {}, text, failure: error.message });
    });
    sent.end(form);
  });
}

/** What is wrong with an answer; null: nothing. */
function problemOf({ status, text, failure }: Answer): string | null {
  if (failure !== null) return failure;
  if (status === 200) return null;
  if (status < 400 || status >= 500) return `${status} ${text.slice(0, 300)}`;
  const { error } = JSON.parse(text) as { error: { message: string } };
  return error.message.length > MESSAGE_LENGTH_MAX ? `${error.message.length} characters` : null;
}

test("[RG103] hostile requests are refused or answered, and no other request pauses", {
  timeout: sized(6, 60) * 60_000,
}, async () => {
  const own = await served();
  const streams = await OrdinaryStreams.start(own.server.url);
  onTestFinished(() => streams.kill());
  const problems: string[] = [];
  const suspects: Case[] = [];
  const dice = new Dice(20_261_126);
  const measured = async (one: Case): Promise<number> => {
    const window = streams.openWindow();
    const problem = problemOf(await one.send());
    if (problem !== null) problems.push(`${one.name} → ${problem}`);
    return await streams.closeWindow(window);
  };
  for (const one of [...bodyCases(own, dice), ...formCases(own, dice)]) {
    if ((await measured(one)) > PAUSE_MS_MAX) suspects.push(one);
    if (!own.server.alive) throw new Error(`${one.name} ended the server:\n${own.server.log}`);
  }
  expect(problems).toEqual([]);
  const slow: string[] = [];
  for (const one of suspects.slice(0, 40)) {
    const pauses: number[] = [];
    for (let run = 0; run < PAUSE_RUNS; run++) pauses.push(await measured(one));
    const median = pauses.sort((a, b) => a - b)[PAUSE_RUNS >> 1] ?? 0;
    if (median > PAUSE_MS_MAX) slow.push(`${one.name}: ${median} ms`);
  }
  expect(slow).toEqual([]);
  expect(streams.problems).toEqual([]);
  // The store is as it was for others.
  const { data } = await own.client.vectorStores.search(own.storeId, { query: "Orlen 1931" });
  expect(data[0]?.content[0]?.text).toContain("1931");
  await streams.stop();
  const { log } = own.server;
  expect(log.filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
  expect(await own.server.stop()).toBe(0);
});
