/** The anchor of a heading, as forges make it; the site has the same: links work in both. */
export function forgeAnchor(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");
}

/** The anchors of a page's headings; equal ones are numbered. */
export function anchorsOf(text) {
  const anchors = new Set();
  const prose = text.replace(/^ *(`{3,})[^\n]*\n[\s\S]*?^ *\1 *$/gm, "");
  for (const [, heading] of prose.matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const anchor = forgeAnchor(heading.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1"));
    let unique = anchor;
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}
