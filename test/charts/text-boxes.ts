/** Where the texts of a picture stand, as far as their widths can be told without a font. */
import { textWidth } from "../../src/charts/text-width.ts";

export interface TextBox {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const SIZES: Readonly<Record<string, number>> = { heading: 14, small: 11 };

/** All texts, in order. */
export function textBoxes(svg: string): TextBox[] {
  const boxes: TextBox[] = [];
  let down = 0;
  for (const [, shift, attributes = "", content = ""] of svg.matchAll(
    /<g transform="translate\(0 ([\d.]+)\)">|<text ([^>]*)>([^<]*)<\/text>/g,
  )) {
    if (shift !== undefined) down = Number(shift);
    else boxes.push(boxOf(attributes, content.replace(/&#?\w+;/g, "x"), down));
  }
  return boxes;
}

function boxOf(attributes: string, text: string, down: number): TextBox {
  const value = (name: string) => new RegExp(` ?${name}="([^"]*)"`).exec(attributes)?.[1] ?? "";
  const size = SIZES[value("class").split(" ")[0] ?? ""] ?? 12;
  const width = textWidth(text, size);
  const anchor = value("text-anchor");
  const x = Number(value("x"));
  const left = anchor === "end" ? x - width : anchor === "middle" ? x - width / 2 : x;
  const base = Number(value("y")) + down;
  return { text, left, right: left + width, top: base - 0.75 * size, bottom: base + 0.2 * size };
}

/** Pairs of texts of which one covers the other. */
export function overlaps(boxes: readonly TextBox[]): string[] {
  return boxes.flatMap((one, at) =>
    boxes
      .slice(at + 1)
      .filter(
        (other) =>
          one.left < other.right &&
          other.left < one.right &&
          one.top < other.bottom &&
          other.top < one.bottom,
      )
      .map((other) => `${one.text} | ${other.text}`),
  );
}

/** Texts that leave the picture. */
export function clipped(svg: string): string[] {
  const [, width = 0, height = 0] = (/viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? []).map(Number);
  return textBoxes(svg)
    .filter(
      ({ left, right, top, bottom }) => left < 0 || right > width || top < 0 || bottom > height,
    )
    .map(({ text }) => text);
}
