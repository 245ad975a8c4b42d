/** How rules read source files. */

/** @typedef {ReadonlyMap<string, string>} Files */

/** What a file imports. */
export const IMPORT = /(?:from|import)\s*\(?\s*"([^"]+)"/g;

/** @param {Files} files @param {RegExp} pattern @returns {[string, string][]} */
export const matching = (files, pattern) => [...files].filter(([path]) => pattern.test(path));

/** @param {string} text @returns {string} */
export const withoutComments = (text) =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, " "))
    .replace(/(^|[^:"'`])\/\/[^\n]*/g, "$1");

/** @param {string} path @returns {string} */
export const folderOf = (path) => path.split("/")[1] ?? "";
