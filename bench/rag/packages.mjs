/**
 * Debian packages with questions and their answers, and manuals of the same things among which the
 * answers have to be found. `apt-get download` fetches them; nothing of them is kept in the
 * repository, and models/embedder was trained on none of them.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf } from "./blocks.mjs";

/** `questions` and `manuals`: patterns of files below usr/share; a pattern with `!` leaves out. */
export const PACKAGES = [
  {
    name: "perl-doc",
    questions: ["perl/*/pod/perlfaq[1-9].pod", "perl/*/pod/perlunifaq.pod"],
    manuals: ["perl/*/pod/*.pod", "!perlfaq", "!delta", "!perlunifaq", "!perltoc"],
  },
  { name: "python3.11-doc", questions: ["doc/python3.11/html/faq/*.html"], manuals: [] },
  { name: "debian-faq", questions: ["doc/debian/FAQ/*.en.html"], manuals: [] },
  { name: "fetchmail", questions: ["doc/fetchmail/fetchmail-FAQ.html"], manuals: [] },
  {
    name: "zsh-doc",
    questions: ["doc/zsh-common/html/FAQ0*.html"],
    manuals: ["doc/zsh-common/html/*.html", "!FAQ", "!Index", "!zsh_"],
  },
  {
    name: "r-doc-html",
    questions: ["doc/r-doc-html/manual/R-FAQ.html"],
    manuals: ["doc/r-doc-html/manual/R-*.html", "!R-FAQ"],
  },
  {
    name: "git-doc",
    questions: ["doc/git-doc/gitfaq.html"],
    manuals: ["doc/git-doc/*.html", "!gitfaq"],
  },
  {
    name: "debian-handbook",
    questions: [],
    manuals: ["doc/debian-handbook/html/en-US/*.html"],
  },
  { name: "exim4-doc-html", questions: [], manuals: ["doc/exim4-doc-html/spec_html/ch*.html"] },
];

/** Where a package was unpacked; fetches it first if it is not there. Also gives its version. */
export function unpack(name, cache) {
  mkdirSync(cache, { recursive: true });
  const target = join(cache, name);
  const archive = () => readdirSync(cache).find((file) => file.startsWith(`${name}_`));
  if (!existsSync(target)) {
    execFileSync("apt-get", ["download", "-q", name], { cwd: cache, stdio: "ignore" });
    execFileSync("dpkg-deb", ["-x", join(cache, archive()), target]);
  }
  return { root: join(target, "usr/share"), version: archive().split("_")[1].replace("%3a", ":") };
}

/** Files that patterns name, in an order that depends on their names alone. */
function filesOf(root, patterns) {
  const without = patterns.filter((one) => one.startsWith("!")).map((one) => one.slice(1));
  const named = patterns.filter((one) => !one.startsWith("!"));
  const hash = (path) => createHash("sha256").update(path).digest("hex");
  const shapes = named.map((one) => {
    const escaped = one.replace(/[.+]/g, "\\$&").replace(/\*/g, "[^/]*");
    return new RegExp(`^${escaped}$`);
  });
  return readdirSync(root, { recursive: true })
    .filter((path) => shapes.some((shape) => shape.test(path)))
    .filter((path) => !without.some((part) => path.split("/").pop().includes(part)))
    .sort((a, b) => (hash(a) < hash(b) ? -1 : 1));
}

const ANSWER_CHARS_MIN = 80;
const QUESTION_WORDS_MIN = 3;

/** Sections of a file: heading and text below it, up to the next heading. */
function sectionsOf(path) {
  const sections = [{ heading: "", paragraphs: [] }];
  for (const block of blocksOf(path, readFileSync(path, "utf8"))) {
    const open = sections.at(-1);
    // What stands under a lesser heading inside an answer is part of the answer.
    const inside = open.heading.endsWith("?") && block.level > open.level;
    if (block.level === null || inside) open.paragraphs.push(block.text);
    else sections.push({ heading: block.text, level: block.level, paragraphs: [] });
  }
  return sections;
}

/**
 * `documents`: paragraphs of each section, headings left out, as those of answers are the
 * questions. `questions`: text, and the document that answers it.
 */
export function readPackages(cache, { manualBytes }) {
  const [documents, questions, versions] = [[], [], {}];
  const add = (name, { paragraphs }) => {
    const chars = paragraphs.join("\n\n").length;
    if (chars >= ANSWER_CHARS_MIN) documents.push({ name, paragraphs });
    return chars;
  };
  for (const { name, questions: faq, manuals } of PACKAGES) {
    const { root, version } = unpack(name, cache);
    versions[name] = version;
    for (const path of filesOf(root, faq)) {
      for (const section of sectionsOf(join(root, path))) {
        const asked = section.heading.endsWith("?") && add(name, section) >= ANSWER_CHARS_MIN;
        const text = section.heading.replace(/^(?:[A-Z]?\d+(?:\.\d+)*[.:]?|Q:)\s+/, "");
        if (asked && text.split(/\s+/).length >= QUESTION_WORDS_MIN) {
          questions.push({ text, document: documents.length - 1, package: name });
        }
        if (!section.heading.endsWith("?")) add(name, section);
      }
    }
    let bytes = 0;
    for (const path of filesOf(root, manuals)) {
      if (bytes > manualBytes) break;
      for (const section of sectionsOf(join(root, path))) bytes += add(name, section);
    }
  }
  return { documents, questions, versions };
}
