import { readFileSync } from "node:fs";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { openBrowser, PATIENT, pageGroup, watchPage, whyNoPage } from "../support/page-browser.ts";

const ADMIN = "an-admin-key";
const PROMPT = "A cache keeps what was computed, so that it is not computed again. ".repeat(8);

describe.skipIf(whyNoPage !== null)(pageGroup("the page, with the bundled model"), () => {
  let llm: LLM;
  let server: RunningServer;
  let browser: Browser;

  beforeAll(async () => {
    llm = await LLM.load("models/pocket", {
      kvCache: { poolBytes: 8 * 2 ** 20, hostCacheBytes: 2 ** 23 },
    });
    server = await startServer(llm, { port: 0, logLevel: "silent", adminKey: [ADMIN] });
    browser = await openBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    await server?.close();
    await llm?.close();
  });

  /** A page that is live, and what went wrong in it. */
  async function open(part: string, look: Parameters<Browser["newPage"]>[0] = {}) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...look });
    const problems = watchPage(page);
    await page.goto(`${server.url}/#${part}`);
    await page.waitForSelector(".state-open");
    return { page, problems };
  }

  async function say(page: Page, text: string): Promise<string> {
    const before = await page.locator(".turns .stats").count();
    await page.fill("textarea[aria-label=Message]", text);
    await page.press("textarea[aria-label=Message]", "Enter");
    const stats = page.locator(".turns .stats").nth(before);
    return stats.innerText();
  }

  test("a chat's second turn finds the first one in the cache, as everyone can see", async () => {
    const { page, problems } = await open("chat");
    await page.fill(".settings input >> nth=4", "24");
    const first = await say(page, PROMPT);
    expect(first).toMatch(/of \d+ prompt tokens cached/);
    const second = await say(page, "What is a prefix?");
    expect(cachedPercent(second)).toBeGreaterThan(70);
    expect(second).toMatch(/first token [\d.]+ (µs|ms|s)/);
    expect(second).toMatch(/\d+ tokens at [\d,]+\/s/);
    await page.click("nav a >> text=Cache");
    // The second turn's end may arrive a moment after the list with the first one.
    const latest = page.locator(".requests li").first();
    await expect
      .poll(async () => cachedPercent(await latest.innerText()), PATIENT)
      .toBe(cachedPercent(second));
    await page.waitForSelector(".icicle .run");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("a branch keeps the prefix that it shares: only what was edited is computed", async () => {
    const { page, problems } = await open("chat");
    await page.fill(".settings input >> nth=4", "8");
    await say(page, `${PROMPT} one`);
    await say(page, "And now?");
    await page.locator(".turn-user >> text=Edit").last().click();
    await page.fill(".editor textarea", "And then?");
    await page.click("text=Send as a new branch");
    await page.waitForSelector(".branches >> text=2 of 2");
    const stats = page.locator(".turns .stats").last();
    await expect
      .poll(async () => cachedPercent(await stats.innerText()), PATIENT)
      .toBeGreaterThan(60);
    await page.click("button[aria-label='Branch before']");
    await page.waitForSelector(".branches >> text=1 of 2");
    expect(await page.locator(".turn-user .said").last().innerText()).toBe("And now?");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click("text=Export"),
    ]);
    const file = readFileSync(await download.path(), "utf8");
    expect(JSON.parse(file)).toMatchObject({ format: "perigee-chat", version: 1 });
    await page.click("button:text-is('New')");
    expect(await page.locator(".turn").count()).toBe(0);
    const chosen = { name: "chat.json", mimeType: "application/json", buffer: Buffer.from(file) };
    await page.setInputFiles("input[aria-label='Conversation to import']", chosen);
    await page.waitForSelector(".branches >> text=1 of 2");
    expect(await page.locator(".turn").count()).toBe(4);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("the cache is shown as it is: levels, tree, texts for holders of the key alone", async () => {
    const { page, problems } = await open("cache");
    await llm.generate(PROMPT, { maxTokens: 4, temperature: 0 });
    await page.waitForSelector(".level-device canvas");
    await page.waitForSelector(".level-host canvas");
    const { free, held, cached } = deviceOf(llm);
    const says = `Device: ${held} blocks held, ${cached} cached, ${free} free`;
    await page.waitForSelector(`.level-device canvas[aria-label="${says}"]`);
    await page.locator(".icicle .run").first().click();
    await page.waitForSelector(".facts-box input[type=password]");
    expect(await page.content()).not.toContain("keeps what was computed");
    await page.fill(".facts-box input[type=password]", ADMIN);
    await page.click(".facts-box >> text=Use");
    await page.waitForSelector(".prefix-text pre");
    await page.locator(".icicle .run:not(.rest)").last().click();
    await page.waitForSelector(".prefix-text pre");
    expect(page.url()).not.toContain(ADMIN);
    expect(await page.evaluate("Object.keys(localStorage)")).toEqual([]);
    await page.click("text=Open from here");
    await page.waitForSelector(".path >> text=All");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("what runs is shown while it runs", async () => {
    const { page, problems } = await open("now");
    let isSeen = false;
    const running = (async () => {
      const options = { maxTokens: 100, temperature: 0, ignoreEos: true };
      while (!isSeen) await llm.generate(PROMPT, options);
    })();
    const rate = page.locator(".tile", { hasText: "tokens a second" }).locator("b");
    await expect
      .poll(async () => Number((await rate.innerText()).replaceAll(",", "")), PATIENT)
      .toBeGreaterThan(1);
    isSeen = true;
    await running;
    await expect.poll(() => page.locator(".requests li").count(), PATIENT).toBeGreaterThan(0);
    expect(await page.locator("canvas[role=img]").first().getAttribute("aria-label")).toMatch(
      /The last steps took [\d.]+ (µs|ms|s) each/,
    );
    expect(problems).toEqual([]);
    await page.close();
  });

  test("all is reached by keyboard", async () => {
    const { page, problems } = await open("now");
    await page.keyboard.press("Tab");
    expect(await focusedText(page)).toBe("To the content");
    for (const name of ["Now", "Cache", "Chat"]) {
      await page.keyboard.press("Tab");
      expect(await focusedText(page)).toBe(name);
    }
    await page.keyboard.press("Enter");
    await page.waitForSelector("textarea[aria-label=Message]:visible");
    await page.focus("textarea[aria-label=Message]");
    await page.keyboard.type("One");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("two");
    expect(await page.inputValue("textarea[aria-label=Message]")).toBe("One\ntwo");
    expect(problems).toEqual([]);
    await page.close();
  });

  test.for([
    ["now", 1280, "dark"],
    ["now", 390, "light"],
    ["cache", 1280, "light"],
    ["cache", 390, "dark"],
    ["chat", 1280, "dark"],
    ["chat", 390, "light"],
  ] as const)(
    "%s at %i pixels, %s: no violation of accessibility, no sideways scrolling",
    async ([part, width, colorScheme]) => {
      const { page, problems } = await open(part, {
        viewport: { width, height: 800 },
        colorScheme,
      });
      if (part === "cache") await page.waitForSelector(".icicle .run");
      // Axe's script is the test's own: the page's policy lets no one add scripts.
      const violations = await violationsIn(page);
      expect(violations).toEqual([]);
      const { scrollWidth, clientWidth } = await page.evaluate<Widths>(WIDTHS);
      expect(scrollWidth).toBeLessThanOrEqual(clientWidth);
      expect(problems).toEqual([]);
      await page.close();
    },
  );
});

/** Runs axe through the debugger, which the page's policy does not bind. */
async function violationsIn(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>("axe.run()");
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

function cachedPercent(text: string): number {
  return Number(/([\d.]+) %/.exec(text)?.[1] ?? Number.NaN);
}

function deviceOf(llm: LLM) {
  const level = llm.stats().cache?.levels[0];
  return level ?? { free: 0, held: 0, cached: 0 };
}

function focusedText(page: Page): Promise<string> {
  return page.evaluate<string>("document.activeElement.textContent");
}

interface Widths {
  readonly scrollWidth: number;
  readonly clientWidth: number;
}

const WIDTHS =
  "(({ scrollWidth, clientWidth }) => ({ scrollWidth, clientWidth }))(document.documentElement)";
