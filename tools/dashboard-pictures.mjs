// node tools/dashboard-pictures.mjs: the pictures of docs/dashboard.md, of a real server with the
// bundled model and conversations that share prefixes. Needs Chromium and a build.
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const PORT = 18_471;
const URL_ = `http://127.0.0.1:${PORT}`;
const BYTES_MAX = 118_000;
const VIEW = { width: 1280, height: 860 };
const ADMIN = "admin";
const SYSTEM = "You are a careful librarian. Answer briefly, and say what you are sure of. ".repeat(
  4,
);
const TOPICS = ["caches", "queues", "trees"];

const folder = fileURLToPath(new URL("../docs/dashboard/", import.meta.url));
mkdirSync(folder, { recursive: true });
const server = startServer();
const browser = await chromium.launch({
  executablePath: process.env.PERIGEE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  await ready();
  const page = await browser.newPage({ viewport: VIEW, colorScheme: "dark" });
  await page.goto(`${URL_}/`);
  await page.evaluate(`sessionStorage.setItem("perigee.key", ${JSON.stringify(ADMIN)})`);
  await page.reload();
  await page.waitForSelector(".state-open");
  const load = converse();
  await sleep(24_000);
  await take(page, "now");
  load.stop();
  await load.ended;
  await page.click("nav a >> text=Chat");
  await page.fill(".settings textarea >> nth=0", SYSTEM);
  await page.fill(".settings label:has-text('max tokens') input", "48");
  for (const [at, text] of ["What is a cache?", "And what is a prefix of it?"].entries()) {
    await page.fill("textarea[aria-label=Message]", text);
    await page.press("textarea[aria-label=Message]", "Enter");
    await page.locator(".turns .stats").nth(at).waitFor();
  }
  await take(page, "chat");
  await page.click("nav a >> text=Cache");
  await page.waitForSelector(".icicle .run");
  const more = converse();
  await sleep(7000);
  more.stop();
  await more.ended;
  const last = converse(1);
  await sleep(1500);
  await page.locator(".icicle .run").first().click();
  await page.setViewportSize({ ...VIEW, height: 1240 });
  await sleep(900);
  await take(page, "cache");
  last.stop();
  await last.ended;
  const phone = await browser.newPage({
    viewport: { width: 390, height: 780 },
    colorScheme: "light",
  });
  await phone.goto(`${URL_}/#cache`);
  await phone.waitForSelector(".icicle .run");
  await sleep(1200);
  await take(phone, "phone");
} finally {
  await browser.close();
  server.kill();
}

function startServer() {
  const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
  const flags = ["--port", String(PORT), "--admin-key", ADMIN, "--log-level", "error"];
  const sizes = ["--kv-pool-bytes", String(24 * 2 ** 20), "--host-cache-bytes", String(2 ** 25)];
  return spawn(process.execPath, [main, "serve", ...flags, ...sizes], { stdio: "inherit" });
}

async function ready() {
  for (let turn = 0; turn < 300; turn++) {
    const { ok } = await fetch(`${URL_}/health`).catch(() => ({ ok: false }));
    if (ok) return;
    await sleep(200);
  }
  throw new Error("The server does not start");
}

/** Conversations that begin alike, several at a time, until they are stopped. */
function converse(count = 5) {
  let isOver = false;
  const one = async (place) => {
    for (let talk = 0; !isOver; talk++) {
      const topic = TOPICS[(place + talk) % TOPICS.length];
      const messages = [{ role: "system", content: `${SYSTEM} The topic is ${topic}.` }];
      for (let turn = 0; turn < 4 && !isOver; turn++) {
        messages.push({ role: "user", content: `Question ${place}.${talk}.${turn} on ${topic}?` });
        messages.push({ role: "assistant", content: await answer(messages) });
      }
    }
  };
  const ended = Promise.all(Array.from({ length: count }, (_, place) => one(place)));
  return {
    ended,
    stop: () => {
      isOver = true;
    },
  };
}

async function answer(messages) {
  const response = await fetch(`${URL_}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages, max_tokens: 48, ignore_eos: true }),
  });
  const { choices } = await response.json();
  return choices?.[0]?.message.content ?? "";
}

/** A picture as WebP, which the browser itself encodes. */
async function take(page, name) {
  const png = await page.screenshot();
  const encoder = await browser.newPage();
  for (const quality of [0.9, 0.8, 0.7, 0.5]) {
    const data = await encoder.evaluate(
      `(async () => {
        const picture = new Image();
        picture.src = "data:image/png;base64,${png.toString("base64")}";
        await picture.decode();
        const canvas = document.createElement("canvas");
        canvas.width = picture.width;
        canvas.height = picture.height;
        canvas.getContext("2d").drawImage(picture, 0, 0);
        return canvas.toDataURL("image/webp", ${quality});
      })()`,
    );
    const bytes = Buffer.from(data.split(",")[1], "base64");
    if (bytes.length > BYTES_MAX) continue;
    writeFileSync(`${folder}${name}.webp`, bytes);
    console.log(`docs/dashboard/${name}.webp: ${Math.round(bytes.length / 1024)} KiB`);
    break;
  }
  await encoder.close();
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
