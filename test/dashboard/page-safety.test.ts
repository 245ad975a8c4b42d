import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { FileSearch, ServerExtension } from "#server";
import { startServer } from "#server";
import { openBrowser, PATIENT, pageGroup, watchPage, whyNoPage } from "../support/page-browser.ts";
import { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

/** Each would set `hacked`, or open a dialog, where text became markup. */
const ATTEMPTS = [
  "<img src=x onerror=\"window.hacked='img'\">",
  "<script>window.hacked='script'</script>",
  '"><svg onload="window.hacked=\'svg\'">',
  "<iframe srcdoc=\"<script>parent.hacked='frame'</script>\"></iframe>",
  "<a href=\"javascript:window.hacked='link'\">here</a>",
  "</textarea></pre></title><style>*{display:none}</style><b onclick=alert(1)>",
  "{{constructor.constructor('window.hacked=1')()}} #{window.hacked=1} [x](javascript:alert(1))",
] as const;
const ALL = ATTEMPTS.join("\n");

/** A model that says what it is told, or calls a tool of an evil name. */
const echo = (prompt: string) =>
  prompt.includes("CALL")
    ? `<tool_call>\n${JSON.stringify({ name: ATTEMPTS[0], arguments: { a: ALL } })}\n</tool_call>`
    : ALL;

describe.skipIf(whyNoPage !== null)(pageGroup("the page and what is put into it"), () => {
  let browser: Browser;
  const pages: Page[] = [];

  beforeAll(async () => {
    browser = await openBrowser();
  });

  afterEach(async () => {
    await Promise.all(pages.splice(0).map((page) => page.close()));
  });

  afterAll(async () => {
    await browser?.close();
  });

  async function open(address: string) {
    const page = await browser.newPage();
    pages.push(page);
    const problems = watchPage(page);
    await page.goto(address);
    return { page, problems };
  }

  /** Nothing ran, nothing became an element, and the page still works. */
  async function expectInert({ page, problems }: Awaited<ReturnType<typeof open>>) {
    expect(await page.evaluate("window.hacked")).toBeUndefined();
    const elements = "img, iframe, svg, script:not([src]), style, [onerror], [onload], [onclick]";
    expect(await page.locator(`#page :is(${elements})`).count()).toBe(0);
    expect(await page.locator("a[href^='javascript']").count()).toBe(0);
    expect(problems).toEqual([]);
  }

  test("prompts, answers, tools and their names stay text", async () => {
    const { server } = await serveToy({ reply: echo });
    const opened = await open(`${server.url}/#chat`);
    const { page } = opened;
    await page.waitForSelector(".state-open");
    await page.fill(".settings textarea >> nth=0", ALL);
    await page.fill("textarea[aria-label=Message]", ALL);
    await page.click("text=Send");
    await page.waitForSelector(".stats");
    for (const text of await page.locator(".said").allInnerTexts()) expect(text.trim()).toBe(ALL);
    await expectInert(opened);
    const tool = { type: "function", function: { name: "look", description: ALL, parameters: {} } };
    await page.fill(".settings textarea >> nth=2", JSON.stringify([tool]));
    await page.fill("textarea[aria-label=Message]", `CALL ${ALL}`);
    await page.click("text=Send");
    await page.waitForSelector(".call code");
    expect(await page.locator(".call code").innerText()).toBe(ATTEMPTS[0]);
    await page.fill(".call textarea", ALL);
    await page.click("text=Return");
    await page.waitForSelector(".turn-tool");
    await expect.poll(() => page.locator(".stats").count(), PATIENT).toBe(3);
    await expectInert(opened);
  });

  test("attached and imported files stay text, names too", async () => {
    const folder = await mkdtemp(join(tmpdir(), "perigee-page-"));
    const { server } = await serveToy({ reply: () => "read" });
    const opened = await open(`${server.url}/#chat`);
    const { page } = opened;
    await page.waitForSelector(".state-open");
    const name = "<img src=x onerror=alert(1)>.txt";
    await writeFile(join(folder, name), ALL);
    await page.setInputFiles("input[aria-label='Files to attach']", join(folder, name));
    await page.waitForSelector(".composer .chip");
    await page.click("text=Send");
    await page.waitForSelector(".stats");
    await page.click(".file summary");
    expect((await page.locator(".file pre").innerText()).trim()).toBe(ALL);
    await expectInert(opened);
    const turn = { id: 1, parent: null, role: "assistant", content: ALL, error: ALL };
    const citations = [{ filename: ALL, fileId: ALL }];
    const turns = [{ ...turn, citations, toolCalls: [{ id: ALL, name: ALL, arguments: ALL }] }];
    const file = JSON.stringify({ format: "perigee-chat", version: 1, system: ALL, turns });
    const buffer = Buffer.from(file);
    const chosen = { name: "x.json", mimeType: "application/json", buffer };
    await page.setInputFiles("input[aria-label='Conversation to import']", chosen);
    await page.waitForSelector(".turn .chip");
    await expectInert(opened);
    const broken = { ...chosen, name, buffer: Buffer.from(ALL) };
    await page.setInputFiles("input[aria-label='Conversation to import']", broken);
    await page.waitForSelector("[role=alert] >> text=Cannot import");
    await expectInert(opened);
    await rm(folder, { recursive: true });
  });

  test("names of models, messages of errors and headers stay text", async () => {
    const options = { servedModelName: [...ATTEMPTS], enableRequestIdHeaders: true };
    const failing = { failAfterTokens: 0, defaultName: ALL };
    const { server } = await serveToy(failing, options);
    for (const attempt of ATTEMPTS) {
      const headers = { "x-request-id": encodeURIComponent(attempt), "user-agent": attempt };
      await fetch(`${server.url}/v1/completions?${encodeURIComponent(attempt)}`, {
        ...{ method: "POST", body: JSON.stringify({ prompt: attempt, model: attempt }) },
        headers: { ...headers, "content-type": "application/json" },
      });
    }
    const opened = await open(`${server.url}/?${encodeURIComponent(ALL)}#chat`);
    const { page } = opened;
    await page.waitForSelector(".state-open");
    expect(await page.locator(".facts").innerText()).toContain("<img src=x");
    await page.fill("textarea[aria-label=Message]", ALL);
    await page.click("text=Send");
    await page.waitForSelector(".turn [role=alert]");
    await page.click("nav a >> text=Now");
    await expectInert(opened);
    await page.evaluate(`location.hash = ${JSON.stringify(ALL)}`);
    await page.waitForSelector(".tiles");
    await expectInert(opened);
  });

  test("titles of documents in citations stay text", async () => {
    const model = new ToyModel();
    const server = await startServer(
      model,
      { port: 0, logLevel: "silent", shutdownTimeoutMs: 0 },
      { extension: citing(ALL) },
    );
    const opened = await open(`${server.url}/#chat`);
    const { page } = opened;
    await page.waitForSelector(".state-open");
    await page
      .locator(".settings label", { hasText: "vector stores" })
      .locator("textarea")
      .fill("vs_1");
    await page.fill("textarea[aria-label=Message]", "What is it?");
    await page.click("text=Send");
    await page.waitForSelector(".turn .chip");
    expect(await page.locator(".turn .chip").innerText()).toContain("<img src=x");
    await expectInert(opened);
    await page.close();
    pages.length = 0;
    await server.close();
  });

  test("even a script that gets into the page cannot make markup, nor ask another host", async () => {
    const { server } = await serveToy();
    const { page, problems } = await open(server.url);
    await page.waitForSelector(".state-open");
    const refused = await page.evaluate<string[]>(`(async () => {
      const tried = [];
      const attempt = async (name, work) => {
        try { await work(); tried.push(name); } catch { }
      };
      await attempt("innerHTML", () => { document.body.innerHTML = "<b>x</b>"; });
      await attempt("script", () => {
        const script = document.createElement("script");
        script.text = "window.hacked = 1";
        document.body.append(script);
      });
      await attempt("source", () => { document.createElement("script").src = "https://a.example"; });
      await attempt("fetch", () => fetch("http://127.0.0.2:9/"));
      await attempt("policy", () => trustedTypes.createPolicy("x", { createHTML: (t) => t }));
      return tried;
    })()`);
    expect(refused).toEqual([]);
    const frame = await browser.newPage();
    pages.push(frame);
    await frame.setContent(`<iframe src="${server.url}/"></iframe>`);
    await expect.poll(() => frame.frames()[1]?.url() ?? "", PATIENT).toMatch(/^chrome-error:|^$/);
    expect(problems.filter((text) => text.startsWith("error"))).toEqual([]);
  });

  test("a key is asked for, is in no address, and goes with the tab", async () => {
    const { server } = await serveToy({}, { apiKey: ["right-key"] });
    const addresses: string[] = [];
    const page = await browser.newPage();
    pages.push(page);
    page.on("request", (request) => addresses.push(request.url()));
    await page.goto(server.url);
    await page.fill("input[type=password]", "wrong-key");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[role=alert] >> text=refused");
    await page.fill("input[type=password]", "right-key");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".state-open");
    await page.reload();
    await page.waitForSelector(".state-open");
    expect(addresses.join()).not.toMatch(/right-key|wrong-key/);
    const other = await browser.newContext();
    const fresh = await other.newPage();
    await fresh.goto(server.url);
    await fresh.waitForSelector("input[type=password]");
    await other.close();
  });

  test("a page that the server lost says so, and is live again when it is back", async () => {
    const { server } = await serveToy();
    const port = Number(new URL(server.url).port);
    const { page } = await open(server.url);
    await page.waitForSelector(".state-open");
    await server.close();
    await page.waitForSelector(".state-lost");
    await serveToy({}, { port });
    await page.waitForSelector(".state-open");
  });
});

/** An extension that answers each question with one citation of a file of this name. */
function citing(filename: string): ServerExtension {
  const fileSearch: FileSearch = {
    async *answer() {
      yield { type: "text", text: "It says so [1]" };
      yield { type: "citation", citation: { fileId: "file-1", filename, index: 11 } };
      const counts = { promptTokens: 1, cachedTokens: 0, completionTokens: 4 };
      yield { type: "end", finishReason: "stop", ...counts };
    },
  };
  return { addRoutes: () => {}, routeDocs: [], fileSearch };
}
