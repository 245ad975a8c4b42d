/**
 * The documentation as a site, of the pages that tools/site.mjs lays out in `pages`. It asks no
 * other host for anything: no web fonts, an index of its own, and a policy that browsers hold.
 */
import { defineConfig } from "vitepress";
import { forgeAnchor } from "../../tools/site/forge-anchor.mjs";
import { SIDEBAR, TOP } from "./sidebar.mjs";

/** VitePress has scripts and styles within its pages. */
const POLICY = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
].join("; ");

export default defineConfig({
  title: "Perigee",
  lang: "en",
  description: "LLM serving in TypeScript, built around the KV cache",
  srcDir: "pages",
  outDir: "../dist-site",
  base: process.env.PERIGEE_SITE_BASE ?? "/",
  lastUpdated: false,
  head: [
    ["meta", { "http-equiv": "content-security-policy", content: POLICY }],
    ["meta", { name: "referrer", content: "no-referrer" }],
    ["link", { rel: "icon", href: "data:," }],
  ],
  // A block without a language is a terminal.
  markdown: { defaultHighlightLang: "console", anchor: { slugify: forgeAnchor } },
  vite: { publicDir: "../files", build: { chunkSizeWarningLimit: 4096 } },
  themeConfig: {
    nav: TOP,
    sidebar: SIDEBAR,
    outline: [2, 3],
    search: { provider: "local" },
    docFooter: { prev: false, next: false },
  },
});
