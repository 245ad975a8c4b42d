import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBrowser, pageGroup, watchPage, whyNoPage } from "../support/page-browser.ts";
import { closeRouters, routeToys } from "../support/router-fleet.ts";
import { closeToyServers } from "../support/toy-server.ts";

closeRouters();
closeToyServers();

describe.skipIf(whyNoPage !== null)(pageGroup("the page of a router"), () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await openBrowser();
  });

  afterAll(async () => {
    await browser?.close();
  });

  test("workers, decisions, and who would get a prompt are shown", async () => {
    const { router, post, workers } = await routeToys([{}, {}]);
    const page = await browser.newPage();
    const problems = watchPage(page);
    await page.goto(router.url);
    await page.waitForSelector(".worker >> nth=1");
    const shown = await page.locator(".worker b").allInnerTexts();
    expect(shown).toEqual(workers.map(({ server }) => server.url));
    const script = "<img src=x onerror=alert(1)>";
    await post("/v1/completions", { prompt: script, max_tokens: 2, model: "toy", user: script });
    await page.waitForSelector(".decisions details");
    await page.fill("textarea[aria-label=Prompt]", script);
    await page.click("text=Explain");
    await page.waitForSelector("tr.chosen");
    expect(workers.map(({ server }) => server.url)).toContain(
      await page.locator("tr.chosen th").innerText(),
    );
    await page.click("nav a >> text=Chat");
    await page.fill("textarea[aria-label=Message]", script);
    await page.click("text=Send");
    await page.waitForSelector(".stats");
    expect(problems).toEqual([]);
    await page.close();
  });
});
