/** The pages of the site without its generator: links, pictures, text that is no markup. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { foreignHosts } from "../../tools/site/foreign-hosts.mjs";
import { anchorsOf } from "../../tools/site/forge-anchor.mjs";
import { sitePages } from "../../tools/site/site-pages.mjs";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-site-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function put(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

const DOCUMENTS = {
  "README.md": "# R\n\n[one](docs/one.md#part) [code](src/a.ts) [examples](examples/)\n",
  "ARCHITECTURE.md": "# A\n\n[rules](src/SPEC.md)\n",
  "CONTRIBUTING.md": "# C\n",
  "SECURITY.md": "# S\n\n[elsewhere](https://example.com/a) [here](#s)\n",
  "docs/one.md": '# One\n\n## Part\n\n[home](../README.md#r)\n\n<img alt="p" src="p.svg">\n',
  "docs/p.svg": "<svg/>",
  "src/a.ts": "export {};\n",
  "src/SPEC.md": "# Rules\n",
  "examples/b.ts": "export {};\n",
};

describe("pages", () => {
  test("links lead to pages, and to copies of other files", () => {
    put(DOCUMENTS);
    const { pages, files, images, dead } = sitePages(root);
    expect(dead).toEqual([]);
    expect(pages.get("index.md")).toBe(
      "# R\n\n[one](./docs/one.md#part) [code](/src/a.ts.txt) [examples](/examples/)\n",
    );
    expect(pages.get("docs/one.md")).toContain("[home](../index.md#r)");
    expect(pages.get("docs/one.md")).toContain('<img alt="p" src="./p.svg">');
    expect(pages.get("src/SPEC.md")).toBe("# Rules\n");
    expect(pages.get("SECURITY.md")).toBe(DOCUMENTS["SECURITY.md"]);
    expect(pages.get("examples/index.md")).toContain("[b.ts](/examples/b.ts.txt)");
    expect([...files.keys()].sort()).toEqual(["examples/b.ts.txt", "src/a.ts.txt"]);
    expect([...images.keys()]).toEqual(["docs/p.svg"]);
  });

  test("dead links and missing pictures are told", () => {
    const links = "[a](nothing.md) [b](../x) ![c](no.svg) [d](docs/one.md#nothing) [e](#nothing)";
    const text = `# C\n\n${links}\n\n<img src="docs/no.webp">\n`;
    put({ ...DOCUMENTS, "CONTRIBUTING.md": text });
    expect(sitePages(root).dead).toEqual([
      "CONTRIBUTING.md: nothing.md leads nowhere",
      "CONTRIBUTING.md: ../x leads nowhere",
      "CONTRIBUTING.md: there is no picture no.svg",
      "CONTRIBUTING.md: docs/one.md#nothing leads to no heading",
      "CONTRIBUTING.md: #nothing leads to no heading",
      "CONTRIBUTING.md: there is no picture docs/no.webp",
    ]);
  });

  test("text that looks like markup stays text, and code stays as it is", () => {
    const code = "`<think>` and `[a](nothing.md)`\n\n```ts\nconst a: Map<string> = {{}};\n```\n";
    put({ ...DOCUMENTS, "CONTRIBUTING.md": `# C\n\nCannot <action> {{a}} <br> a < b\n\n${code}` });
    const { pages, dead } = sitePages(root);
    expect(dead).toEqual([]);
    expect(pages.get("CONTRIBUTING.md")).toBe(
      `# C\n\nCannot &lt;action> &#123;&#123;a}} <br> a < b\n\n${code}`,
    );
  });
});

test("anchors are those of forges", () => {
  const text =
    "# `a_b`, and C\n\n## Where is …?\n\n```sh\n# no heading\n```\n\n## Where is …?\n\n## [A](b) 1.2\n";
  expect([...anchorsOf(text)]).toEqual(["a_b-and-c", "where-is-", "where-is--1", "a-12"]);
});

test("of this repository no link is dead, and the sidebar has each page", () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["tools/site.mjs", "--check"], {
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^site: \d+ pages, \d+ files, \d+ pictures\n$/);
  expect(status).toBe(0);
});

describe("a built site", () => {
  const policy =
    "<meta http-equiv=\"content-security-policy\" content=\"default-src 'self'; img-src 'self'\">";

  test("that asks no other host is left alone", () => {
    const page = `${policy}<a href="https://example.com">a</a><script src="/a.js"></script>`;
    put({ "index.html": page, "a.js": 'fetch("/b"); const s = "http://www.w3.org/2000/svg";' });
    expect(foreignHosts(root)).toEqual([]);
  });

  test.each<[string, string, string]>([
    ["a script", "a.html", `${policy}<script src="https://cdn.example.com/a.js"></script>`],
    ["a picture", "a.html", `${policy}<img alt="" src=//example.com/a.png>`],
    ["a style", "a.html", `${policy}<link rel="stylesheet" href="https://example.com/a.css">`],
    ["a font", "a.css", '@font-face { src: url("https://example.com/a.woff2") }'],
    ["an import of a style", "a.css", '@import "https://example.com/a.css";'],
    ["a request", "a.js", 'fetch("https://example.com/search")'],
    ["a socket", "a.js", "new WebSocket(`wss://example.com/`)"],
    ["a page without the policy", "a.html", "<p>a</p>"],
  ])("is refused for %s", (_, file, text) => {
    put({ [file]: text });
    expect(foreignHosts(root)).toHaveLength(1);
  });
});
