/** HTML and POD as blocks of text: `level` is a heading's, null for what is none. */

const HEADING = /^h([1-6])$/;
const BLOCKS = new Set(
  "p div section li dd dt ul ol dl blockquote article main body tr table pre br".split(" "),
);
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
/** Lists of links to the page's own headings, and what frames a page. */
const SKIPPED = [
  /<(script|style|head|nav|header|footer)\b[\s\S]*?<\/\1>/gi,
  /<div class="(?:toc|contents)"[\s\S]*?<\/div>/gi,
  /<!--[\s\S]*?-->/g,
];

const TOKEN = /<(\/?)([a-z][a-z0-9]*)[^>]*>|<[^>]*>|[^<]+/gi;

function decode(text) {
  return text.replace(/&(#x?[\da-f]+|\w+);/gi, (whole, name) => {
    if (!name.startsWith("#")) return ENTITIES[name] ?? " ";
    const hex = name[1].toLowerCase() === "x";
    const code = Number.parseInt(name.slice(hex ? 2 : 1), hex ? 16 : 10);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** Of a file, by its name. */
export function blocksOf(path, text) {
  return path.endsWith(".pod") ? podBlocks(text) : htmlBlocks(text);
}

function htmlBlocks(html) {
  const blocks = [];
  let [buffer, level, inPre] = ["", null, false];
  const flush = () => {
    const raw = decode(buffer).replace(/¶/g, "");
    const text = inPre ? raw.trim() : raw.replace(/\s+/g, " ").trim();
    // A term of a list is a heading where it asks.
    const own = level === 7 && !text.endsWith("?") ? null : level;
    if (text !== "") blocks.push({ level: own, text });
    buffer = "";
  };
  const shown = SKIPPED.reduce((text, part) => text.replace(part, " "), html);
  for (const [token, closing, tag] of shown.matchAll(TOKEN)) {
    const name = tag?.toLowerCase();
    if (name === undefined) {
      if (!token.startsWith("<")) buffer += token;
      continue;
    }
    const heading = HEADING.exec(name);
    if (heading === null && !BLOCKS.has(name)) continue;
    if (inPre && name !== "pre") continue;
    flush();
    inPre = name === "pre" && closing === "";
    const opened = heading === null ? (name === "dt" ? 7 : null) : Number(heading[1]);
    level = closing === "" ? opened : null;
  }
  flush();
  return blocks;
}

/** Formatting codes, innermost first: B<bold>, L<text|target>, E<gt>, C<< a > b >>. */
function plainPod(text) {
  let plain = text.replace(/E<(\w+)>/g, (_, name) => ENTITIES[name] ?? " ");
  plain = plain.replace(/[A-Z](<{2,})\s([\s\S]*?)\s>{2,}/g, "$2");
  for (let depth = 0; depth < 4; depth++) {
    plain = plain
      .replace(/[XZ]<[^<>]*>/g, "")
      .replace(/L<([^<>|]*)\|[^<>]*>/g, "$1")
      .replace(/[BICFSL]<([^<>]*)>/g, "$1");
  }
  return plain;
}

function podBlocks(pod) {
  const blocks = [];
  let foreign = false;
  for (const block of pod.split(/\n\s*\n/)) {
    const [, command, rest] = /^=(\w+)\s*([\s\S]*)$/.exec(block.trim()) ?? [];
    if (command === "begin") foreign = true;
    if (!foreign && command === undefined && block.trim() !== "") {
      const verbatim = /^[ \t]/.test(block);
      const text = verbatim ? block : plainPod(block).replace(/\s+/g, " ").trim();
      blocks.push({ level: null, text });
    }
    if (!foreign && command?.startsWith("head")) {
      blocks.push({ level: Number(command[4]), text: plainPod(rest).replace(/\s+/g, " ").trim() });
    }
    if (!foreign && command === "item" && rest.length > 2) {
      blocks.push({ level: null, text: plainPod(rest).replace(/\s+/g, " ").trim() });
    }
    if (command === "end") foreign = false;
  }
  return blocks;
}
