// What all parts of the page share: the tables, the sizes that are bound, what they break, and what is selected.

import { type Data, Tables } from "./data";
import { clipped } from "./dom";
import { Evaluator, type Sizes } from "./evaluate";
import { partly } from "./partly";

export type Selection =
  | { kind: "node"; node: number }
  | { kind: "tensor"; tensor: number }
  | { kind: "line"; tensors: number[] }
  | { kind: "scope"; scope: number }
  | { kind: "symbol"; symbol: number }
  | null;

export class State {
  readonly tables: Tables;
  readonly evaluator: Evaluator;
  readonly sizes: Sizes = new Map();
  selection: Selection = null;
  /** Nodes that state a condition which does not hold at the bound sizes. */
  broken = new Set<number>();
  /** Conditions that do not hold at the bound sizes: terms of the contract, and requirements beside these. */
  violated = 0;
  failing: number[] = [];
  readonly faulty: Map<number, "error" | "warning">;
  private readonly sizeListeners: (() => void)[] = [];
  private readonly selectListeners: ((jump: boolean) => void)[] = [];

  constructor(readonly data: Data) {
    this.tables = new Tables(data);
    this.evaluator = new Evaluator(data);
    this.faulty = new Map();
    for (const f of data.findings) {
      if (f.severity === "info") continue;
      for (const n of f.nodes) if (this.faulty.get(n) !== "error") this.faulty.set(n, f.severity);
    }
  }

  onSizes(listener: () => void): void { this.sizeListeners.push(listener); }
  onSelect(listener: (jump: boolean) => void): void { this.selectListeners.push(listener); }

  setSize(symbol: number, size: bigint | null): void {
    if (size === null) this.sizes.delete(symbol); else this.sizes.set(symbol, size);
    this.sizesChanged();
  }

  setSizes(sizes: [number, bigint][]): void {
    this.sizes.clear();
    for (const [symbol, size] of sizes) this.sizes.set(symbol, size);
    this.sizesChanged();
  }

  /** `jump`: bring it into the picture. */
  select(selection: Selection, jump = false): void {
    this.selection = selection;
    for (const listener of this.selectListeners) listener(jump);
  }

  /** A dim at the bound sizes, or its expression with those sizes in it where they do not decide it. */
  dim(row: number, length = 400): string {
    const size = this.evaluator.size(row);
    return size !== null ? size.toString() : clipped(partly(this.tables, this.evaluator, this.sizes, row), length);
  }

  shape(tensor: number, length = 400): string {
    const shape = this.tables.shape(tensor);
    return shape ? `[${shape.map((d) => this.dim(d, length)).join(", ")}]` : this.shapeless(tensor);
  }

  symbolic(tensor: number): string {
    const shape = this.tables.shape(tensor);
    return shape ? `[${shape.map((d) => this.tables.text(d)).join(", ")}]` : this.shapeless(tensor);
  }

  private shapeless(tensor: number): string {
    const type = this.tables.dtype(tensor);
    return /^(sequence|optional|map)$/.test(type) ? type : "unknown rank";
  }

  private sizesChanged(): void {
    this.evaluator.bind(this.sizes);
    this.broken = new Set();
    const add = (row: number, nodes: number[]): void => {
      if (this.evaluator.truth(row) === false) for (const n of nodes) this.broken.add(n);
    };
    for (const term of this.data.contract.terms) if (term.kind === "") add(term.row, term.nodes);
    for (const [row, nodes] of this.data.requirements) add(row, nodes);
    const fails = (row: number): boolean => this.evaluator.truth(row) === false;
    this.violated = this.data.contract.terms.filter((t) => (t.kind === "" || t.kind === "assumed") && fails(t.row)).length;
    this.failing = this.data.requirements.flatMap(([row]) => (fails(row) ? [row] : []));
    for (const listener of this.sizeListeners) listener();
  }
}
