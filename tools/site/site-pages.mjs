/**
 * The pages of the site: README.md, the documents, and the Markdown that they lead to. Their text
 * is that of the repository; links to other files lead to copies, so that the site is whole.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path/posix";
import { anchorsOf } from "./forge-anchor.mjs";

const FIRST = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
const IMAGE = /\.(svg|webp|png|jpe?g)$/;
/** Of HTML, documents use these alone; any other `<word>` in a text is no tag. */
const TAG = /^<\/?(img|br|a|sub|sup|kbd|details|summary)\b|^<!--/;

/** What a page of the repository is called in the site. */
function pageName(path) {
  return path.replace(/(^|\/)README\.md$/, "$1index.md");
}

/** From a page of the site to a file of it. */
function relativeLink(from, to) {
  const link = relative(dirname(pageName(from)), to);
  return link.startsWith(".") ? link : `./${link}`;
}

/**
 * `pages`: texts by name; `files`: paths in the repository of what they refer to, by the name of
 * the copy; `images`: the same, beside the pages; `dead`: a line for each link that leads nowhere.
 */
export function sitePages(root) {
  return new SitePages(root).collect();
}

class SitePages {
  #root;
  #waiting;
  #known;
  /** Of pages that links with an anchor lead to. */
  #anchors = new Map();
  pages = new Map();
  files = new Map();
  images = new Map();
  dead = [];

  constructor(root) {
    this.#root = root;
    const docs = readdirSync(join(root, "docs"), { recursive: true })
      .map((file) => join("docs", String(file)))
      .filter((path) => path.endsWith(".md"));
    this.#waiting = [...FIRST, ...docs];
    this.#known = new Set(this.#waiting);
  }

  /** Pages that links lead to join while it goes on. */
  collect() {
    for (let path = this.#waiting.shift(); path !== undefined; path = this.#waiting.shift()) {
      this.pages.set(pageName(path), this.#textOf(path));
    }
    return this;
  }

  #textOf(path) {
    const text = readFileSync(join(this.#root, path), "utf8");
    return outsideCode(text, (prose) =>
      plainTags(prose)
        .replace(/(!?)(\[[^\]]*\]\()([^)\s]+)\)/g, (_, isImage, before, link) => {
          const target = isImage === "" ? this.#targetOf(path, link) : this.#imageOf(path, link);
          return `${isImage}${before}${target})`;
        })
        .replace(/(<img\b[^>]*\bsrc=")([^"]+)"/g, (_, before, link) => {
          return `${before}${this.#imageOf(path, link)}"`;
        }),
    );
  }

  /** Where a link of a page leads in the site. */
  #targetOf(path, link) {
    if (/^[a-z]+:/i.test(link)) return link;
    const [file, anchor] = link.split("#");
    if (file === "") {
      this.#checkAnchor(path, link, path, anchor);
      return link;
    }
    const place = normalize(join(dirname(path), file)).replace(/\/$/, "");
    if (place.startsWith("..") || !existsSync(join(this.#root, place))) {
      this.dead.push(`${path}: ${link} leads nowhere`);
      return link;
    }
    const isFolder = statSync(join(this.#root, place)).isDirectory();
    const readme = join(place, "README.md");
    const page = isFolder && existsSync(join(this.#root, readme)) ? readme : place;
    if (!page.endsWith(".md")) return isFolder ? this.#folderOf(place) : this.#copyOf(place);
    if (!this.#known.has(page)) this.#waiting.push(page);
    this.#known.add(page);
    if (anchor !== undefined) this.#checkAnchor(path, link, page, anchor);
    return relativeLink(path, pageName(page)) + (anchor === undefined ? "" : `#${anchor}`);
  }

  /** Tells of a link to a heading that a page does not have. */
  #checkAnchor(path, link, page, anchor) {
    const anchors =
      this.#anchors.get(page) ?? anchorsOf(readFileSync(join(this.#root, page), "utf8"));
    this.#anchors.set(page, anchors);
    if (!anchors.has(anchor)) this.dead.push(`${path}: ${link} leads to no heading`);
  }

  /** Text of any kind is shown by browsers as such, whatever its ending was. */
  #copyOf(path) {
    const name = /\.(json|txt|svg|webp)$/.test(path) ? path : `${path}.txt`;
    this.files.set(name, path);
    return `/${name}`;
  }

  /** A folder without a README.md is a page that lists its files. */
  #folderOf(path) {
    const names = readdirSync(join(this.#root, path)).filter((name) =>
      statSync(join(this.#root, path, name)).isFile(),
    );
    const lines = names.map((name) => `- [${name}](${this.#copyOf(join(path, name))})`);
    this.pages.set(join(path, "index.md"), `# ${path}\n\n${lines.join("\n")}\n`);
    return `/${path}/`;
  }

  #imageOf(path, link) {
    const place = normalize(join(dirname(path), link));
    if (!IMAGE.test(place) || !existsSync(join(this.#root, place))) {
      this.dead.push(`${path}: there is no picture ${link}`);
      return link;
    }
    this.images.set(place, place);
    return relativeLink(path, place);
  }
}

/** The text with a function applied to what is in no code block and no inline code. */
export function outsideCode(text, change) {
  const code =
    /^( *)(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1\2[`~]* *$|(?<!`)(`+)(?!`)[\s\S]*?(?<!`)\3(?!`)/gm;
  // A link's text may hold code: what stands between is changed as one piece, with places kept.
  const held = [];
  const prose = text.replace(code, (piece) => `\0${held.push(piece) - 1}\0`);
  return change(prose).replace(/\0(\d+)\0/g, (_, place) => held[Number(place)]);
}

/** Text that only looks like HTML, or like a template of Vue, is shown as it stands. */
function plainTags(prose) {
  return prose
    .replace(/<(?=[!/a-z])([^<\n]*)/gi, (all, rest) => (TAG.test(all) ? all : `&lt;${rest}`))
    .replaceAll("{{", "&#123;&#123;");
}
