import type { BindValues, QueryResult, Statement } from "node-sqlite3-wasm";

/**
 * The first row of a prepared statement; null: there is none. The library's own `get` leaves the
 * statement in the middle of its rows: a connection that still reads copies nothing from its log
 * into the file, and the log grows without end.
 */
export function firstRow(statement: Statement, values: BindValues): QueryResult | null {
  return statement.all(values)[0] ?? null;
}
