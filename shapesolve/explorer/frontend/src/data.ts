// The tables that shapesolve/report/explorer.py writes, and what follows from them directly.

export type Row = [string, ...unknown[]];

export interface SymbolEntry {
  name: string;
  input: boolean;
  sample?: number;
  why?: string; // what a generated name stands for
  is?: number; // the row that the model's equations put in its place
}

export interface TermEntry {
  text: string;
  row: number;
  nodes: number[];
  kind: "usual" | "" | "assumed" | "declared" | "data";
}

export interface FindingEntry {
  code: string;
  severity: "error" | "warning" | "info";
  title: string;
  node: string;
  op: string;
  nodes: number[];
  operands: [string, string, string][];
  steps: [string, number[]][];
  notes: string[];
  help: string;
}

export interface Profile { min: number[]; opt: number[]; max: number[]; conditions: string[] }

export interface Cost {
  parameters: number;
  parameterBytes: number;
  macs: number; // rows from here on
  flops: number;
  activations: number;
  peak: number[]; // the largest of these
  shared: number[];
  remarks: string[];
}

/** Accepted sizes of a symbol as it grows, with those of the symbol that follows it (-1: none has to). */
export interface Way { symbol: number; follows: number; sizes: number[]; following: number[] }

/** Sizes are in the order of `names`, which are numbers of symbols. */
export interface Deployment {
  names: number[];
  usual: number[];
  accepted: number[][];
  profiles: Profile[];
  ways: Way[];
  cost: Cost;
}

export interface Data {
  format: number;
  model: { name: string; nodes: number; opset: number; about: [string, string][] };
  symbols: SymbolEntry[];
  rows: Row[];
  texts: Record<string, string>;
  forms: Record<string, number>; // rows that are read in place of others
  shapes: number[][];
  dtypes: string[];
  ops: string[];
  tensors: [string, number, number, number, number][]; // name, dtype, shape, kind, producer
  values: Record<string, number[]>;
  contents: Record<string, string>; // elements of stored tensors that have few
  attributes: Record<string, [string, string][]>; // of nodes
  data: Record<string, number[]>; // of nodes: the tensors of which they read the elements
  scopes: [number, string][];
  nodes: [string, number, number, number[], number[], number, number[]?][]; // label, op, scope, reads, makes, kind, results of bodies
  contract: { impossible: boolean; nothing: string; limits: string; scope: string; terms: TermEntry[] };
  requirements: [number, number[]][];
  constraints: Record<string, [string, string, string][]>;
  equal: number[][];
  findings: FindingEntry[];
  deployment: Deployment | null;
}

export const enum TensorKind { Computed, Input, Stored }
export const enum NodeKind { Operator, Folded, Input, Output, Shapes }

/** Is a node an input or an output of the graph? */
export function isEnd(kind: number): boolean { return kind === NodeKind.Input || kind === NodeKind.Output; }

export class Tables {
  readonly readers: number[][];
  readonly children: number[][];
  readonly members: number[][];
  readonly size: number[]; // nodes in a scope and below it
  readonly shown: number[]; // the same without constants and arithmetic on sizes
  private sameDim: Map<number, number[]> | null = null;
  private freeOf: (Set<number> | undefined)[] = [];

  constructor(readonly data: Data) {
    this.readers = data.tensors.map(() => []);
    this.children = data.scopes.map(() => []);
    this.members = data.scopes.map(() => []);
    this.size = data.scopes.map(() => 0);
    this.shown = data.scopes.map(() => 0);
    data.nodes.forEach((node, i) => {
      for (const t of new Set(node[3])) if (t >= 0) this.readers[t].push(i);
      if (node[2] >= 0) this.members[node[2]].push(i);
      for (let s = node[2]; s >= 0; s = data.scopes[s][0]) {
        this.size[s]++;
        if (node[5] !== NodeKind.Folded && node[5] !== NodeKind.Shapes) this.shown[s]++;
      }
    });
    data.scopes.forEach(([parent], s) => parent >= 0 && this.children[parent].push(s));
  }

  op(node: number): string { return this.data.ops[this.data.nodes[node][1]]; }
  label(node: number): string { return this.data.nodes[node][0]; }
  tensorName(t: number): string { return this.data.tensors[t][0]; }
  dtype(t: number): string { return this.data.dtypes[this.data.tensors[t][1]]; }
  kind(t: number): TensorKind { return this.data.tensors[t][3]; }
  producer(t: number): number { return this.data.tensors[t][4]; }

  shape(t: number): number[] | null {
    const s = this.data.tensors[t][2];
    return s < 0 ? null : this.data.shapes[s];
  }

  text(row: number): string { return this.data.texts[row] ?? "?"; }
  isNumber(row: number): boolean { return this.data.rows[row][0] === "+" && this.data.rows[row].length === 2; }

  scopePath(scope: number): string {
    const names: string[] = [];
    for (let s = scope; s >= 0; s = this.data.scopes[s][0]) names.unshift(this.data.scopes[s][1]);
    return names.join(" / ");
  }

  /** Number of the scope at a path, as `scopePath` gives it; -1 for none. */
  scopeAt(path: string): number { return this.data.scopes.findIndex((_, s) => this.scopePath(s) === path); }

  /** Numbers of the symbols that a row depends on. */
  free(row: number): Set<number> {
    const known = this.freeOf[row];
    if (known) return known;
    const found = new Set<number>();
    const stack = [row];
    const seen = new Set<number>();
    while (stack.length) {
      const r = stack.pop()!;
      if (seen.has(r)) continue;
      seen.add(r);
      const cells = this.data.rows[r];
      if (cells[0] === "s") found.add(cells[1] as number);
      else stack.push(...operands(cells));
    }
    return (this.freeOf[row] = found);
  }

  /** Tensors with a symbol in their shape. */
  tensorsOf(symbol: number): number[] {
    return this.data.tensors.flatMap((_, t) => (this.shape(t)?.some((row) => this.free(row).has(symbol)) ? [t] : []));
  }

  /** Tensors that have a dim, by the dim's row. */
  tensorsWith(row: number): number[] {
    if (!this.sameDim) {
      this.sameDim = new Map();
      this.data.tensors.forEach((_, t) => {
        for (const d of new Set(this.shape(t) ?? [])) {
          const list = this.sameDim!.get(d);
          if (list) list.push(t); else this.sameDim!.set(d, [t]);
        }
      });
    }
    return this.sameDim.get(row) ?? [];
  }
}

/** The rows that a row refers to. */
export function operands(cells: Row): number[] {
  if (cells[0] === "s") return [];
  if (cells[0] !== "+") return cells.slice(1) as number[];
  return (cells.slice(2) as number[][]).flatMap((term) => term.slice(1));
}
