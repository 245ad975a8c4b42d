// What the charts of docs have in common: SVG, readable on light and on dark pages.

export const WIDTH = 760;

const LIGHT = `text{font:13px system-ui,sans-serif;fill:#1f2328}
.quiet{fill:#59636e;font-size:12px}.value{fill:#fff;font-size:12px}.outside{font-size:11px}
.ours{fill:#0969da}.peer{fill:#9a6700}.third{fill:#1a7f37}.fourth{fill:#8250df}
.fifth{fill:#bf3989}
.limit{stroke:#59636e}`;
const DARK = `text{fill:#f0f6fc}.quiet{fill:#9198a1}.value{fill:#0d1117}
.ours{fill:#4493f8}.peer{fill:#d29922}.third{fill:#3fb950}.fourth{fill:#ab7df8}
.fifth{fill:#f778ba}
.limit{stroke:#9198a1}`;
const STYLE = `${LIGHT}\n@media (prefers-color-scheme:dark){${DARK}}`;

/**
 * @param {{ height: number, title: string, heading: string, subtitle: string }} text
 * @param {readonly string[]} parts
 */
export function svg({ height, title, heading, subtitle }, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" role="img">
<title>${title}</title>
<style>${STYLE}</style>
<text x="8" y="20" font-weight="600">${heading}</text>
<text class="quiet" x="8" y="39">${subtitle}</text>
${parts.join("\n")}
</svg>
`;
}

/** A colour and what it stands for, from `x` on. */
export function legend(kind, name, x) {
  return `<rect class="${kind}" x="${x}" y="47" width="10" height="10" rx="2"/>
<text class="quiet" x="${x + 15}" y="56">${name}</text>`;
}

/** A line from the top of the bars to `bottom`, which stands for a value. */
export function limitLine(x, bottom, label) {
  return `<text class="quiet" x="${x}" y="56" text-anchor="middle">${label}</text>
<path class="limit" stroke-dasharray="2 3" d="M${x} 62V${bottom}"/>`;
}
