/**
 * The pages of the site: README.md, the documents, and the Markdown that they lead to. Their text
 * is that of the repository; links to other files lead to copies, so that the site is whole.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path/posix";

const FIRST = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
const IMAGE = /\.(svg|webp|png|jpe?g)$/;
/** Of HTML, documents use these alone; any other `<word>` in a text is no tag. */
const TAG = /^<\/?(img|br|a|sub|sup|kbd|details|summary)\b|^<!--/;

/** Of the repository, what a page is called in the site. */
export function pageName(path) {
  return path.replace(/(^|\/)README\.md$/, "$1index.md");
}

/**
 * `pages`: texts by name; `files`: paths in the repository of what they refer to, by the name of
 * the copy; `images` the same, beside the pages; `dead`: one line for each link that leads nowhere.
 */
export function sitePages(root) {
  const pages = new Map();
  const files = new Map();
  const images = new Map();
  const dead = [];
  const docs = readdirSync(join(root, "docs"), { recursive: true })
    .map((file) => join("docs", String(file)))
    .filter((path) => path.endsWith(".md"));
  const waiting = [...FIRST, ...docs];
  const known = new Set(waiting);

  /** Where a link of a page leads in the site; null: it stays as it is. */
  function targetOf(path, link) {
    if (/^([a-z]+:|#)/i.test(link)) return null;
    const [file, anchor] = link.split("#");
    const behind = anchor === undefined ? "" : `#${anchor}`;
    const place = normalize(join(dirname(path), file)).replace(/\/$/, "");
    if (place.startsWith("..") || !existsSync(join(root, place))) {
      dead.push(`${path}: ${link} leads nowhere`);
      return null;
    }
    const isFolder = statSync(join(root, place)).isDirectory();
    const readme = join(place, "README.md");
    const page = isFolder && existsSync(join(root, readme)) ? readme : place;
    if (page.endsWith(".md")) {
      if (!known.has(page)) waiting.push(page);
      known.add(page);
      const link = relative(dirname(pageName(path)), pageName(page));
      return `${link.startsWith(".") ? link : `./${link}`}${behind}`;
    }
    return isFolder ? folderOf(place) : copyOf(place);
  }

  /** Text of any kind is shown by browsers as such, whatever the ending was. */
  function copyOf(path) {
    const name = /\.(json|txt|svg|webp)$/.test(path) ? path : `${path}.txt`;
    files.set(name, path);
    return `/${name}`;
  }

  /** A folder without a README.md is a page that lists its files. */
  function folderOf(path) {
    const names = readdirSync(join(root, path)).filter((name) =>
      statSync(join(root, path, name)).isFile(),
    );
    const lines = names.map((name) => `- [${name}](${copyOf(join(path, name))})`);
    pages.set(join(path, "index.md"), `# ${path}\n\n${lines.join("\n")}\n`);
    return `/${path}/`;
  }

  function imageOf(path, link) {
    const place = normalize(join(dirname(path), link));
    if (!IMAGE.test(place) || !existsSync(join(root, place))) {
      dead.push(`${path}: there is no picture ${link}`);
      return link;
    }
    images.set(place, place);
    const target = relative(dirname(pageName(path)), place);
    return target.startsWith(".") ? target : `./${target}`;
  }

  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    const page = path;
    const text = readFileSync(join(root, page), "utf8");
    pages.set(
      pageName(page),
      outsideCode(text, (prose) =>
        plainTags(prose)
          .replace(/(!?\[[^\]]*\]\()([^)\s]+)\)/g, (whole, before, link) => {
            if (before.startsWith("!")) return `${before}${imageOf(page, link)})`;
            const target = targetOf(page, link);
            return target === null ? whole : `${before}${target})`;
          })
          .replace(/(<img\b[^>]*\bsrc=")([^"]+)"/g, (_, before, link) => {
            return `${before}${imageOf(page, link)}"`;
          }),
      ),
    );
  }
  return { pages, files, images, dead };
}

/** The text with a function applied to what is in no code block and no inline code. */
export function outsideCode(text, change) {
  const code = /^( *)(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1\2`*~* *$|(`+)(?!`)[\s\S]*?(?<!`)\3(?!`)/gm;
  let done = "";
  let last = 0;
  // A link's text may hold code: what stands between is changed as one piece, with places kept.
  const held = [];
  for (const match of text.matchAll(code)) {
    done += `${text.slice(last, match.index)}\u0000${held.length}\u0000`;
    held.push(match[0]);
    last = match.index + match[0].length;
  }
  done += text.slice(last);
  return change(done).replace(/\0(\d+)\0/g, (_, place) => held[Number(place)]);
}

/** Text that only looks like HTML, or like a template of Vue, is shown as it stands. */
function plainTags(prose) {
  return prose
    .replace(/<(?=[!/a-z])([^<\n]*)/gi, (all, rest) => (TAG.test(all) ? all : `&lt;${rest}`))
    .replaceAll("{{", "&#123;&#123;");
}
