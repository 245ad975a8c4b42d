/**
 * What the rows of the table were given: peers measured before on the same type of card, and the
 * numbers to reach. `null`: no such measurement.
 */
export const givenRows = {
  "decode-1": { llamaCpp: 209.6, transformers: 147.9, must: 230, aim: 255 },
  "decode-8": { llamaCpp: 7.5, transformers: null, must: 5.0, aim: 4.2 },
  "decode-64": { llamaCpp: 9.4, transformers: null, must: 7.5, aim: 6.0 },
  "decode-256": { llamaCpp: 20.4, transformers: null, must: 13, aim: 10 },
  "prefill-8192": { llamaCpp: 24_600, transformers: 32_800, must: 34_000, aim: 41_000 },
  "requests-256": { llamaCpp: 6.47, transformers: 56, must: 5.3, aim: 4.3 },
  "decode-100k": { llamaCpp: null, transformers: null, must: 105, aim: 130 },
};
