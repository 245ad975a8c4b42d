import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import { withTexts } from "../../tools/declaration-texts.mjs";

const Options = z.strictObject({
  size: z.number().default(3).describe("How large."),
  inner: z
    .strictObject({ name: z.string().describe("Its name.") })
    .nullable()
    .default(null),
  "odd-key": z.array(z.string()).describe("A list; */ ends no comment."),
});

test("an input type becomes an interface with the texts of its schema", () => {
  const text = withTexts("export type Input = z.input<typeof Options>;\nexport {};\n", { Options });
  const type = "z.input<typeof Options>";
  expect(text).toBe(`export interface Input {
    /** How large. Default: 3. */
    readonly size?: ${type}["size"];
    readonly inner?: {
        /** Its name. */
        readonly name: Extract<${type}["inner"], object>["name"];
    } | Exclude<${type}["inner"], object>;
    /** A list; * / ends no comment. */
    readonly "odd-key": ${type}["odd-key"];
}
export {};
`);
});

test("other types stay as they are", () => {
  const text = "export type Output = z.output<typeof Options>;\n";
  expect(withTexts(text, { Options })).toBe(text);
  const unknown = "export type Input = z.input<typeof Other>;\n";
  expect(withTexts(unknown, { Options })).toBe(unknown);
});

const declaration = "dist/engine/protocol/config.d.ts";

test.runIf(existsSync(declaration))("the build's declarations have the texts of options", () => {
  expect(readFileSync(declaration, "utf8")).toContain(
    "/** Memory for keys and values; null: a share",
  );
});
