/** The built site in a browser that reaches no other host: pages, pictures, the search. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBrowser, PATIENT, watchPage, whyNoPage } from "../support/page-browser.ts";

const skipped = existsSync("dist-site/index.html") ? whyNoPage : "needs npm run site";
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".webp": "image/webp",
};

function serveSite(): Promise<Server> {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://a").pathname));
    const place = join("dist-site", path.endsWith("/") ? `${path}index.html` : path);
    const file = existsSync(place) && statSync(place).isFile() ? place : "dist-site/404.html";
    const type = TYPES[extname(file)] ?? "text/plain; charset=utf-8";
    response.writeHead(file === place ? 200 : 404, { "content-type": type });
    response.end(readFileSync(file));
  });
  return new Promise((settle) => server.listen(0, "127.0.0.1", () => settle(server)));
}

describe.skipIf(skipped !== null)(
  `the built site${skipped === null ? "" : ` (${skipped})`}`,
  () => {
    let server: Server;
    let browser: Browser;
    let page: Page;
    let problems: string[];
    let url: string;
    const asked: string[] = [];

    beforeAll(async () => {
      server = await serveSite();
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      browser = await openBrowser();
      page = await browser.newPage();
      problems = watchPage(page);
      await page.route(/.*/, (route) => {
        const { origin, protocol } = new URL(route.request().url());
        if (origin === url || protocol === "data:") return route.continue();
        asked.push(route.request().url());
        return route.abort();
      });
    });
    afterAll(async () => {
      await browser.close();
      server.close();
      server.closeAllConnections();
    });

    test("shows pages with their pictures", async () => {
      await page.goto(`${url}/docs/dashboard.html`, PATIENT);
      expect(await page.locator("h1").textContent()).toContain("The live page");
      const pictures = page.locator(".vp-doc img");
      expect(await pictures.count()).toBe(3);
      for (const picture of await pictures.all()) {
        await picture.scrollIntoViewIfNeeded();
        await expect
          .poll(
            () =>
              picture.evaluate(
                (image) => (image as unknown as { naturalWidth: number }).naturalWidth,
              ),
            PATIENT,
          )
          .toBeGreaterThan(100);
      }
    });

    test("leads each reader to a first page", async () => {
      await page.goto(`${url}/`, PATIENT);
      const sidebar = (await page.locator(".VPSidebar").textContent()) ?? "";
      for (const name of ["App developers", "Operators", "Fleets", "Researchers", "Reference"]) {
        expect(sidebar.toLowerCase()).toContain(name.toLowerCase());
      }
      await page.locator(".VPSidebar").getByRole("link", { name: "From vLLM" }).click();
      await page.waitForURL(/from-vllm/, PATIENT);
      expect(await page.locator("h1").textContent()).toContain("From vLLM");
    });

    test("searches, without another host", async () => {
      await page.goto(`${url}/`, PATIENT);
      await page.keyboard.press("Control+k");
      await page.locator("#localsearch-input").fill("kvByteSeconds");
      const first = page.locator("#localsearch-list li").first();
      await first.waitFor(PATIENT);
      expect(await first.textContent()).toMatch(/\S/);
      await first.click();
      await page.waitForURL(/docs\//, PATIENT);
    });

    test("asks no other host, and breaks none of its policy", () => {
      expect(asked).toEqual([]);
      expect(problems).toEqual([]);
    });
  },
);
