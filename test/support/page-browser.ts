/** A real browser for tests of the page: Debian's Chromium, driven by playwright-core. */
import { accessSync, constants, existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const { PERIGEE_CHROMIUM } = process.env;

/** Chromium's path; null: this machine has none where it is looked for. */
const executablePath =
  (PERIGEE_CHROMIUM === undefined ? PLACES : [PERIGEE_CHROMIUM]).find(isExecutable) ?? null;

/** Why the page cannot be tried here; null: it can. */
export const whyNoPage: string | null =
  executablePath === null
    ? "needs Chromium: apt-get install chromium, or PERIGEE_CHROMIUM=PATH"
    : existsSync(new URL("../../dist/dashboard/index.html", import.meta.url))
      ? null
      : "needs the built page: npm run build";

/** For what a page is to show: on a busy machine a browser takes its time. */
export const PATIENT = { timeout: 20_000 } as const;

/** The name of a test file's group, with the reason where it is left out. */
export function pageGroup(name: string): string {
  return whyNoPage === null ? name : `${name} (left out: ${whyNoPage})`;
}

/** Starts Chromium; it asks nothing outside of this machine. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: executablePath ?? "",
    args: [
      ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
      ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
    ],
  });
}

/** What went wrong in a page: errors, refused scripts, dialogs. */
export function watchPage(page: Page): string[] {
  const found: string[] = [];
  page.on("pageerror", (error) => found.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // Answers that tests want to be errors are told there, too.
    const isAnswer = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isAnswer) found.push(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    found.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
