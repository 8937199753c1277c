// A dim where some sizes are known: what they decide is computed, the rest stays an expression.

import type { Row, Tables } from "./data";
import type { Evaluator, Sizes } from "./evaluate";

/** A name in an expression's text, which is no function's. */
const NAME = /[A-Za-z_][\w.]*(?![\w.(])/g;

/** Sum of products: the factors of each product as text, with its coefficient. */
type Sum = Map<string, { factors: string[]; times: bigint }>;

/** The text of a row at the sizes given: `128*seq` for `64*batch*seq` where batch is 2. */
export function partly(tables: Tables, evaluator: Evaluator, sizes: Sizes, row: number): string {
  const text = tables.text(row);
  const known = new Map<string, string>();
  for (const symbol of tables.free(row)) {
    const size = sizes.get(symbol);
    if (size !== undefined) known.set(tables.data.symbols[symbol].name, size.toString());
  }
  if (!known.size) return text;
  const replaced = text.replace(NAME, (name) => known.get(name) ?? name);
  const computed = new Writer(tables.data.rows, evaluator, tables.data.symbols.map((s) => s.name)).dim(tables.data.forms[row] ?? row);
  return computed !== null && computed.length <= replaced.length ? computed : replaced;
}

class Writer {
  constructor(private readonly rows: Row[], private readonly evaluator: Evaluator, private readonly names: string[]) {}

  /** Null for what has conditions in it. */
  dim(row: number): string | null {
    const sum = this.sum(row);
    return sum && written(sum);
  }

  private sum(row: number): Sum | null {
    const size = this.evaluator.size(row);
    if (size !== null) return constant(size);
    const [kind, first, ...terms] = this.rows[row] as [string, number | string, ...[number | string, ...number[]][]];
    if (kind !== "+") return null;
    const total = constant(BigInt(first));
    for (const [coefficient, ...atoms] of terms) {
      let times = BigInt(coefficient);
      const factors: string[] = [];
      for (const atom of atoms) {
        const value = this.evaluator.size(atom);
        const text = value === null ? this.atom(atom) : "";
        if (text === null) return null;
        if (value === null) factors.push(text); else times *= value;
      }
      const key = factors.sort().join("*");
      total.set(key, { factors, times: times + (total.get(key)?.times ?? 0n) });
    }
    return total;
  }

  private atom(row: number): string | null {
    const [kind, ...cells] = this.rows[row] as [string, ...number[]];
    if (kind === "s") return this.names[cells[0]];
    if (kind !== "/" && kind !== "p" && kind !== "b") return null;
    const parts = cells.map((r) => this.dim(r));
    if (parts.includes(null)) return null;
    if (kind === "p") return `max(${parts[0]}, 0)`;
    if (kind === "b") return `broadcast(${parts.join(", ")})`;
    return parts.map((p) => (/^[\w.]+$/.test(p!) ? p : `(${p})`)).join("//");
  }
}

function constant(value: bigint): Sum { return new Map([["", { factors: [], times: value }]]); }

function written(sum: Sum): string {
  const terms = [...sum].filter(([, t]) => t.times !== 0n).sort(([a], [b]) => Number(a === "") - Number(b === ""));
  if (!terms.length) return "0";
  return terms.map(([, { factors, times }], i) => {
    const sign = times < 0n ? (i ? " - " : "-") : i ? " + " : "";
    const size = times < 0n ? -times : times;
    const alone = factors.length === 1 && size === 1n;
    const shown = factors.map((f) => (f.includes("//") && !f.endsWith(")") && !alone ? `(${f})` : f));
    return sign + (size === 1n && factors.length ? shown : [size.toString(), ...shown]).join("*");
  }).join("");
}
