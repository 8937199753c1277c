// Sizes from the table of expressions: one pass, exact integers, and null where a part has no value.

import { type Data, type Row, operands } from "./data";

export type Value = bigint | boolean | null;
export type Sizes = Map<number, bigint>; // by the number of the symbol

/** The values of some rows, and of what they are made of. */
export class Rows {
  values: Value[] = [];
  private readonly order: number[];

  constructor(protected readonly data: Data, wanted: number[]) {
    const found = new Set<number>();
    const symbols = new Set<number>();
    const stack = [...wanted];
    while (stack.length) {
      const row = stack.pop()!;
      if (found.has(row)) continue;
      found.add(row);
      const cells = data.rows[row];
      stack.push(...operands(cells));
      const is = cells[0] === "s" ? data.symbols[cells[1] as number].is : undefined;
      if (is === undefined || symbols.has(is)) continue;
      symbols.add(is);
      stack.push(is);
    }
    this.order = [...found].sort((a, b) => a - b);
  }

  /** Evaluate at these sizes; symbols that equations replace get the size that follows, unless given. */
  bind(given: Sizes): void {
    const sizes = new Map(given);
    this.pass(sizes);
    let more = false;
    this.data.symbols.forEach((symbol, i) => {
      if (sizes.has(i) || symbol.is === undefined) return;
      const value = this.values[symbol.is];
      if (typeof value === "bigint") {
        sizes.set(i, value);
        more = true;
      }
    });
    if (more) this.pass(sizes);
  }

  size(row: number): bigint | null {
    const value = this.values[row];
    return typeof value === "bigint" ? value : null;
  }

  truth(row: number): boolean | null {
    const value = this.values[row];
    return typeof value === "boolean" ? value : null;
  }

  private pass(sizes: Sizes): void {
    const values: Value[] = new Array(this.data.rows.length);
    for (const row of this.order) values[row] = valueOf(this.data.rows[row], values, sizes);
    this.values = values;
  }
}

/** The values of all rows. */
export class Evaluator extends Rows {
  constructor(data: Data) {
    super(data, data.rows.map((_, i) => i));
    this.bind(new Map());
  }
}

function valueOf(cells: Row, values: Value[], sizes: Sizes): Value {
  const at = (i: number): Value => values[cells[i] as number];
  switch (cells[0]) {
    case "s": return sizes.get(cells[1] as number) ?? null;
    case "+": return sum(cells, values);
    case "/": return quotient(at(1), at(2));
    case "p": { const x = at(1); return typeof x === "bigint" ? (x > 0n ? x : 0n) : null; }
    case "b": return broadcast((cells.slice(1) as number[]).map((r) => values[r]));
    case "?": { const c = at(1); return c === null ? null : at(c ? 2 : 3); }
    case "==": { const x = at(1); return x === null ? null : x === 0n; }
    case "!=": { const x = at(1); return x === null ? null : x !== 0n; }
    case ">=": { const x = at(1); return typeof x === "bigint" ? x >= 0n : null; }
    case "true": return true;
    case "false": return false;
    case "and": return junction(cells, values, false);
    case "or": return junction(cells, values, true);
    default: return null;
  }
}

function sum(cells: Row, values: Value[]): Value {
  let total = BigInt(cells[1] as number | string);
  for (let i = 2; i < cells.length; i++) {
    const term = cells[i] as [number | string, ...number[]];
    let product = BigInt(term[0]);
    for (let k = 1; k < term.length; k++) {
      const factor = values[term[k] as number];
      if (typeof factor !== "bigint") return null;
      product *= factor;
    }
    total += product;
  }
  return total;
}

/** Floor division, as in Python. */
function quotient(a: Value, b: Value): Value {
  if (typeof a !== "bigint" || typeof b !== "bigint" || b === 0n) return null;
  const q = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? q - 1n : q;
}

function broadcast(parts: Value[]): Value {
  if (parts.some((p) => typeof p !== "bigint")) return null;
  return parts.find((p) => p !== 1n) ?? 1n;
}

function junction(cells: Row, values: Value[], settles: boolean): Value {
  let open = false;
  for (let i = 1; i < cells.length; i++) {
    const value = values[cells[i] as number];
    if (value === settles) return settles;
    if (value === null) open = true;
  }
  return open ? null : !settles;
}
