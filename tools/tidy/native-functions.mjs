/** Functions of C++ and CUDA sources, found by their braces: files are read, and not parsed. */

/**
 * @typedef {object} NativeFunction
 * @property {string} name
 * @property {number} line where its signature begins, from 1
 * @property {number} lines from the signature to the closing brace
 * @property {number} codeLines those of them that are neither blank nor a comment
 */

/** A head that ends like a signature: a list of parameters, qualifiers, a trailing return type. */
const SIGNATURE = /\)\s*(?:(?:const|noexcept|override|final|&&?)\s*)*(?:->\s*[\w:<>*&,\s]+)?$/;
const SCOPE =
  /^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|struct|class|union|enum|extern)\b/s;
const MEMBER_LIST = /\)\s*(?:noexcept\s*)?:(?!:)/;
const LAST_NAME = /(operator\s*[^\s(]+|~?\w+)\s*(?:<[^()]*>)?\s*\(/g;

/**
 * All functions and methods that have a body, templates and kernels among them. Lambdas belong to
 * the function that they are in.
 * @param {string} text
 * @returns {NativeFunction[]}
 */
export function nativeFunctions(text) {
  const code = withoutText(text);
  const isCode = code.split("\n").map((line) => line.trim() !== "");
  const lineOf = lineCounter(code);
  const found = [];
  /** Where the declaration that is being read began. */
  let from = 0;
  let parentheses = 0;
  for (let at = 0; at < code.length; at++) {
    const char = code[at];
    if (char === "(") parentheses++;
    else if (char === ")") parentheses--;
    else if (parentheses > 0) continue;
    else if (char === ";" || char === "}") from = at + 1;
    else if (char === ":" && isAccess(code.slice(from, at))) from = at + 1;
    else if (char === "{") {
      const head = code.slice(from, at).trim();
      if (isScope(head)) from = at + 1;
      else {
        const end = closingBrace(code, at);
        if (isFunction(head)) {
          const first = lineOf(from + code.slice(from).search(/\S/));
          const last = lineOf(end);
          const codeLines = isCode.slice(first - 1, last).filter(Boolean).length;
          found.push({ name: nameIn(head), line: first, lines: last - first + 1, codeLines });
          from = end + 1;
        }
        at = end;
      }
    }
  }
  return found;
}

/** `public:` stands before a declaration, and is no part of it. @param {string} read */
const isAccess = (read) => /^\s*(?:public|protected|private)\s*$/.test(read);

/** @param {string} head */
const isScope = (head) =>
  SCOPE.test(head) && !SIGNATURE.test(head) && !MEMBER_LIST.test(head) && !head.endsWith("=");

/** A member that is initialised by braces is no body: what stands before it is its name. */
const isFunction = (/** @type {string} */ head) =>
  MEMBER_LIST.test(head) ? /[)}]$/.test(head) : SIGNATURE.test(head);

/** The name before the first list of parameters. @param {string} head */
function nameIn(head) {
  const signature = head
    .replace(/__launch_bounds__\s*\([^)]*\)/g, "")
    .replace(/\b(?:alignas|decltype|__attribute__)\s*\([^)]*\)/g, "");
  const [name] = [...signature.matchAll(LAST_NAME)].map(([, one = ""]) => one);
  return (name ?? "?").replace(/\s+/g, "");
}

/** @param {string} code @param {number} open */
function closingBrace(code, open) {
  let depth = 0;
  for (let at = open; at < code.length; at++) {
    if (code[at] === "{") depth++;
    else if (code[at] === "}" && --depth === 0) return at;
  }
  return code.length - 1;
}

/** @param {string} code @returns {(offset: number) => number} */
function lineCounter(code) {
  let [line, seen] = [1, 0];
  return (offset) => {
    if (offset < seen) [line, seen] = [1, 0];
    for (; seen < offset; seen++) if (code[seen] === "\n") line++;
    return line;
  };
}

/** Blanks for comments, directives and what quotes hold: offsets and lines stay. */
function withoutText(/** @type {string} */ text) {
  const blank = (/** @type {string} */ part) => part.replace(/[^\n]/g, " ");
  return text
    .replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'/g, (part) =>
      part.startsWith("/") ? blank(part) : `${part[0]}${blank(part.slice(1, -1))}${part[0]}`,
    )
    .replace(/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*/gm, blank);
}
