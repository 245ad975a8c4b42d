import { describe, expect, test } from "vitest";
import { type BarChart, type Chart, inlineChart, type LineChart, picture } from "#charts";
import { partsOf } from "./svg-parts.ts";
import { clipped } from "./text-boxes.ts";

const HOSTILE =
  `</text></svg><script>alert("1")</script><img src=x onerror='a()'>&amp;<!--]]>` +
  "\u0000\u001b[2J\u202e\ud800\uffff\u2028";

const line = (more: Partial<LineChart> = {}): LineChart => ({
  kind: "lines",
  title: "speed",
  x: { label: "streams" },
  y: { label: "tokens a second" },
  series: [
    { name: "one", points: points([1, 10], [2, 20]) },
    { name: "two", points: points([1, 5], [2, 90]) },
  ],
  ...more,
});

const bars = (more: Partial<BarChart> = {}): BarChart => ({
  kind: "bars",
  title: "hits",
  series: ["ours", "theirs"],
  rows: [
    { label: "prose", values: [3, 2] },
    { label: "code", values: [1, null] },
  ],
  ...more,
});

function points(...pairs: (readonly [number, number])[]) {
  return pairs;
}

describe("a picture", () => {
  test("is the same for the same chart, light and dark, and says what it shows", () => {
    const drawn = picture([line(), bars()], { title: "both" });
    expect(picture([line(), bars()], { title: "both" })).toBe(drawn);
    expect(drawn).toContain("@media (prefers-color-scheme:dark)");
    expect(drawn).toContain('role="img" aria-labelledby="title desc"');
    expect(partsOf(drawn).titles[0]).toBe("both");
    expect(drawn).toContain(
      '<desc id="desc">speed. one: 10 at 1, 20 at 2; two: 5 at 1, 90 at 2. ' +
        "hits. prose: ours 3, theirs 2; code: ours 1.</desc>",
    );
  });

  test.for<[string, Chart]>([
    ["lines", line({ title: HOSTILE, subtitle: HOSTILE, x: { label: HOSTILE } })],
    ["series", line({ series: [{ name: HOSTILE, points: points([1, 1], [2, 2]) }] })],
    ["places", line({ x: { label: "", names: [HOSTILE, HOSTILE] }, y: { label: HOSTILE } })],
    ["limits", line({ limits: [{ axis: "x", name: HOSTILE, value: 1 }] })],
    ["bars", bars({ title: HOSTILE, subtitle: HOSTILE, unit: HOSTILE, series: [HOSTILE, "b"] })],
    ["rows", bars({ rows: [{ label: HOSTILE, values: [1], texts: [HOSTILE] }] })],
    ["the line of bars", bars({ limit: { name: HOSTILE, value: 2 } })],
  ])("shows hostile text of %s as text", ([, chart]) => {
    for (const drawn of [picture([chart], { title: HOSTILE }), inlineChart(chart)]) {
      const { texts } = partsOf(drawn);
      expect(texts.join("")).not.toMatch(/\p{Bidi_Control}/u);
    }
  });

  test("of nothing, of one point, of equal and of huge values is drawn", () => {
    const some = [
      [],
      points([0, 0]),
      points([1, 1e300], [2, 1e300]),
      points([Number.NaN, 1], [1, Number.POSITIVE_INFINITY], [5, 5]),
      points([-3, -4], [1e-300, 2]),
    ];
    for (const scale of ["linear", "log"] as const) {
      for (const one of some) {
        const x = { label: "x", scale };
        const chart = line({ x, y: x, series: [{ name: "a", points: one }] });
        const drawn = picture([chart]);
        expect(drawn).not.toMatch(/NaN|Infinity|undefined/);
        partsOf(drawn);
      }
    }
    for (const rows of [[], [{ label: "", values: [] }], [{ label: "a", values: [0, -1] }]]) {
      expect(picture([bars({ rows })])).not.toMatch(/NaN|Infinity|undefined/);
    }
    partsOf(picture([line({ series: [] })]));
    partsOf(picture([]));
  });

  test("is bounded, whatever is to be drawn", () => {
    const many = Array.from({ length: 100_000 }, (_, at) => [at, at % 7] as const);
    const name = "long ".repeat(10_000);
    const series = Array.from({ length: 1000 }, () => ({ name, points: many }));
    const rows = Array.from({ length: 10_000 }, () => ({ label: name, values: [1, 2] }));
    const limits = Array.from({ length: 1000 }, () => ({ axis: "y" as const, name: "", value: 1 }));
    const of = (chart: Chart) => picture([chart]).length;
    expect(of(line({ title: name, series, limits }))).toBeLessThan(300_000);
    expect(of(bars({ title: name, subtitle: name, series: [name, name], rows }))).toBeLessThan(
      150_000,
    );
  });
});

test("long names are cut, so that none leaves the picture", () => {
  const long = "a long name of something ".repeat(20);
  const x = { label: long, names: [long, long, long] };
  const limits = [
    { axis: "x" as const, name: long, value: 1 },
    { axis: "y" as const, name: long, value: 7 },
  ];
  const series = [0, 1, 2].map((place) => ({ name: long, points: points([0, place], [2, place]) }));
  const drawn = [
    line({ ...{ title: long, subtitle: long, series, limits }, x, y: { label: long } }),
    bars({ ...{ title: long, subtitle: long, unit: long }, series: [long, long] }),
    bars({ rows: [{ label: long, values: [3, 2] }], limit: { name: long, value: 2 } }),
  ].map((chart) => picture([chart]));
  for (const one of drawn) expect(clipped(one)).toEqual([]);
});

describe("lines", () => {
  test("have their names beside their ends where these are apart, without a legend", () => {
    const { texts } = partsOf(picture([line()]));
    expect(texts.filter((text) => text === "one" || text === "two")).toEqual(["one", "two"]);
    expect(texts.indexOf("one")).toBeGreaterThan(texts.indexOf("streams"));
  });

  test("have a legend above them where their ends are together, or at different places", () => {
    const together = Array.from({ length: 6 }, (_, at) => ({
      ...{ name: `line ${at}`, points: points([1, at], [2, 9]) },
    }));
    const apart = [
      { name: "line 0", points: points([1, 1], [9, 9]) },
      { name: "line 1", points: points([1, 2], [3, 4]) },
    ];
    for (const series of [together, apart]) {
      const { texts } = partsOf(picture([line({ series })]));
      expect(texts.indexOf("line 0")).toBeLessThan(texts.indexOf("streams"));
    }
  });

  test("tell the value of each point, and marks have no line", () => {
    const series = [{ name: "paper", marks: true, points: points([1, 2], [3, 4]) }];
    const drawn = picture([line({ series })]);
    expect(partsOf(drawn).titles).toEqual(["speed", "paper: 1, 2", "paper: 3, 4"]);
    expect(drawn).not.toMatch(/d="M[\d. ]+L/);
  });

  test("stand where their values are: twice as much is twice as high", () => {
    const series = [{ name: "a", points: points([0, 50], [1, 100]) }];
    const [, x0, y0, x1, y1] = / d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"/
      .exec(picture([line({ series })]))
      ?.map(Number) ?? [0, 0, 0, 0, 0];
    const zero = 2 * (y0 ?? 0) - (y1 ?? 0);
    expect(x1).toBeGreaterThan(x0 ?? 0);
    expect(picture([line({ series })])).toContain(`d="M${x0} ${zero}v4"`);
  });

  test("have places by name instead of numbers", () => {
    const x = { label: "", names: ["16 KiB", "1 MiB"] };
    const series = [{ name: "a", points: points([0, 1], [1, 2]) }];
    const { texts, titles } = partsOf(picture([line({ x, series })]));
    expect(texts).toEqual(expect.arrayContaining(["16 KiB", "1 MiB"]));
    expect(titles).toContain("a: 1 MiB, 2");
  });
});

describe("bars", () => {
  test("are as long as their values, with these beside them and a unit", () => {
    const drawn = picture([bars({ unit: " ms" })]);
    const widths = [
      ...drawn.matchAll(/<rect class="f\d" x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="13"/g),
    ];
    const [a, b, c] = widths.map(([, width]) => Number(width));
    expect([(b ?? 0) / (a ?? 1), (c ?? 0) / (a ?? 1)]).toEqual(
      [2 / 3, 1 / 3].map((one) => expect.closeTo(one, 3)),
    );
    expect(partsOf(drawn).texts).toEqual(expect.arrayContaining(["3 ms", "2 ms", "1 ms"]));
    expect(widths).toHaveLength(3);
  });

  test("of one series need no legend", () => {
    const { texts } = partsOf(
      picture([bars({ series: ["ours"], rows: [{ label: "a", values: [1] }] })]),
    );
    expect(texts).not.toContain("ours");
  });
});
