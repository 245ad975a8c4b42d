/** Retention of a prompt's blocks, as JSON: in a flag, or beside a prompt in a file. */
import { describeIssue, EngineError, issueText } from "#base";
import { type RetentionConfig, RetentionParams } from "#engine";
import { camelCaseFields } from "./camel-case.ts";

/** For `--help`. */
export const RETENTION_HELP =
  'How long blocks stay cached, e.g. {"ranges": [{"start": 0, "end": 100, "priority": 90, ' +
  '"durationMs": 30000}], "decodePriority": 35}; priorities from 0 to 100, 35 is the default.';

/**
 * Parses a retention, with field names in snake_case or camelCase. On an invalid value, throws the
 * error of `refuse`, which receives the problem, e.g. `ranges.0.end must be …`.
 */
export function readRetention(
  value: unknown,
  refuse: (problem: string) => EngineError,
): RetentionConfig {
  const options = camelCaseFields(value);
  const parsed = RetentionParams.safeParse(options, { error: issueText });
  if (parsed.success) return parsed.data;
  const { param, text } = describeIssue(parsed.error.issues[0] ?? {}, options);
  throw refuse(param === "" ? text : `${param} ${text}`);
}

/** `--retention JSON`; undefined if it is not given. Throws INVALID_ARGUMENT. */
export function retentionFromFlag(value: unknown): RetentionConfig | undefined {
  if (value === undefined) return undefined;
  return readRetention(value, (problem) => {
    const param = "--retention";
    const message = `Cannot use ${param}: ${problem}`;
    return new EngineError("INVALID_ARGUMENT", message, { param });
  });
}
