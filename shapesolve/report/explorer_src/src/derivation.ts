// Where a tensor's dims come from: the same walk backwards as shapesolve/explain/trace.py, for any tensor on demand.

import { TensorKind, type Tables } from "./data";

const MAX_LINKS = 400;

export interface Derivation {
  sources: number[]; // inputs and stored tensors that it starts from
  steps: { node: number; tensor: number }[]; // in graph order
}

interface Place { tensor: number; axis: number | null; dim: number }

export function derivation(tables: Tables, tensor: number): Derivation {
  const shape = tables.shape(tensor);
  const made = tables.producer(tensor);
  const stored = tables.kind(tensor) !== TensorKind.Computed;
  if (!shape || shape.length === 0) {
    return stored || made < 0 ? { sources: [tensor], steps: [] } : { sources: [], steps: [{ node: made, tensor }] };
  }
  const sources = new Set<number>();
  const steps = new Map<number, number>();
  const stack: Place[] = shape.map((dim, axis) => ({ tensor, axis, dim })).reverse();
  const seen = new Set<string>();
  const links = new Set<string>();
  while (stack.length && links.size < MAX_LINKS) {
    const place = stack.pop()!;
    const key = `${place.tensor}:${place.dim}`;
    if (seen.has(key)) continue;
    seen.add(key);
    links.add(`${place.tensor}:${place.axis}:${place.dim}`);
    const node = tables.producer(place.tensor);
    if (node < 0 || tables.kind(place.tensor) !== TensorKind.Computed) {
      sources.add(place.tensor);
      continue;
    }
    if (!steps.has(node)) steps.set(node, place.tensor);
    stack.push(...before(tables, node, place).reverse());
  }
  const ordered = [...steps].map(([node, t]) => ({ node, tensor: t })).sort((a, b) => a.node - b.node);
  return { sources: [...sources], steps: ordered };
}

/** The places that a node takes a dim from: where it passes it on, the nearest; else what it is computed from. */
function before(tables: Tables, node: number, place: Place): Place[] {
  const reads = tables.data.nodes[node][3].filter((t) => t >= 0);
  let best: Place | null = null;
  let bestRank: [number, number, number] = [0, 0, 0];
  const consider = (rank: [number, number, number], candidate: Place): void => {
    if (!best || less(rank, bestRank)) [best, bestRank] = [candidate, rank];
  };
  const whole = tables.shape(place.tensor);
  for (const t of reads) {
    const shape = tables.shape(t) ?? [];
    const stored = tables.kind(t) === TensorKind.Stored ? 1 : 0;
    shape.forEach((dim, i) => {
      if (dim !== place.dim) return;
      const far = place.axis === null || !whole
        ? 0
        : Math.min(Math.abs(i - place.axis), Math.abs(i - shape.length - (place.axis - whole.length)));
      consider([0, far, stored], { tensor: t, axis: i, dim });
    });
    if (tables.data.values[t]?.includes(place.dim)) consider([1, 0, stored], { tensor: t, axis: null, dim: place.dim });
  }
  return best ? [best] : ingredients(tables, reads, place.dim);
}

function ingredients(tables: Tables, reads: number[], dim: number): Place[] {
  const out: Place[] = [];
  const free = tables.free(dim);
  const shares = (other: number): boolean => [...tables.free(other)].some((s) => free.has(s));
  for (const t of reads) {
    if (tables.kind(t) === TensorKind.Stored) continue;
    (tables.shape(t) ?? []).forEach((d, i) => {
      if (shares(d) || (!free.size && !tables.free(d).size)) out.push({ tensor: t, axis: i, dim: d });
    });
    for (const e of tables.data.values[t] ?? []) if (shares(e)) out.push({ tensor: t, axis: null, dim: e });
  }
  return out;
}

function less(a: number[], b: number[]): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
}
