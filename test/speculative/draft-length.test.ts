import { expect, test } from "vitest";
import { DraftLength, UnusedRest } from "#speculative";

test("[SP5] a draft that is confirmed as a whole is followed by one of twice its length", () => {
  const length = new DraftLength(20);
  const lengths = Array.from({ length: 5 }, () => {
    const next = length.next();
    length.verified(next, next);
    return next;
  });
  expect(lengths).toEqual([4, 8, 16, 20, 20]);
});

test("[SP5] others are followed by one token more than was confirmed", () => {
  const length = new DraftLength(20);
  length.verified(length.next(), 2);
  expect(length.next()).toBe(3);
  length.verified(3, 1);
  expect(length.next()).toBe(2);
});

test("[SP5] after drafts of which nothing was confirmed it rests, longer each time", () => {
  const length = new DraftLength(20);
  const rests = Array.from({ length: 9 }, () => {
    length.verified(length.next(), 0);
    let steps = 0;
    while (length.next() === 0) steps++;
    return steps;
  });
  expect(rests).toEqual([1, 2, 4, 8, 16, 32, 64, 64, 64]);
  length.verified(4, 1);
  length.verified(length.next(), 0);
  expect([length.next(), length.next()]).toEqual([0, 4]);
});

test("[SP5] no draft is longer than allowed", () => {
  expect(new DraftLength(2).next()).toBe(2);
});

test("[SP21] after 32 drafts for nothing one step in eight has one, until one is used", () => {
  const rest = new UnusedRest();
  /** Steps of `count` that draft. */
  const drafted = (count: number) => {
    let found = 0;
    for (let step = 0; step < count; step++) {
      if (!rest.drafts()) continue;
      rest.made();
      found++;
    }
    return found;
  };
  expect(drafted(32)).toBe(32);
  expect(drafted(80)).toBe(10);
  rest.used();
  expect(drafted(20)).toBe(20);
  // A step that finds nothing to draft is none for nothing.
  for (let step = 0; step < 100; step++) expect(rest.drafts()).toBe(true);
});
