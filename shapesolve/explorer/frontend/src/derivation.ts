// Where a tensor's dims come from: the same walk backwards as shapesolve/causes/trace.py, for any tensor on demand.

import { TensorKind, type Tables } from "./data";

/** Places at which a dim is computed that are followed; those that pass it on are not counted. */
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
  let computed = 0;
  while (stack.length && computed < MAX_LINKS) {
    const place = stack.pop()!;
    const key = `${place.tensor}:${place.dim}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const node = tables.producer(place.tensor);
    if (node < 0 || tables.kind(place.tensor) !== TensorKind.Computed) {
      computed++;
      sources.add(place.tensor);
      continue;
    }
    if (!steps.has(node)) steps.set(node, place.tensor);
    const passed = nearest(tables, node, place);
    if (!passed) computed++;
    stack.push(...(passed ? [passed] : ingredients(tables, node, place.dim).reverse()));
  }
  const ordered = [...steps].map(([node, t]) => ({ node, tensor: t })).sort((a, b) => a.node - b.node);
  return { sources: [...sources], steps: ordered };
}

/** Where a node that passes a dim on takes it from: sizes before elements, and how many elements it reads comes last. */
function nearest(tables: Tables, node: number, place: Place): Place | null {
  const reads = tables.data.nodes[node][3].filter((t) => t >= 0);
  const asData = tables.data.data[node] ?? [];
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
      consider([asData.includes(t) ? 2 : 0, far, stored], { tensor: t, axis: i, dim });
    });
    if (tables.data.values[t]?.includes(place.dim)) consider([1, 0, stored], { tensor: t, axis: null, dim: place.dim });
  }
  return best;
}

/** What a dim is computed from: sizes, and elements of what is read as data. */
function ingredients(tables: Tables, node: number, dim: number): Place[] {
  const out: Place[] = [];
  const asData = tables.data.data[node] ?? [];
  const free = tables.free(dim);
  const shares = (other: number): boolean => [...tables.free(other)].some((s) => free.has(s));
  for (const t of tables.data.nodes[node][3]) {
    if (t < 0 || tables.kind(t) === TensorKind.Stored) continue;
    (asData.includes(t) ? [] : tables.shape(t) ?? []).forEach((d, i) => {
      if (shares(d) || (!free.size && !tables.free(d).size)) out.push({ tensor: t, axis: i, dim: d });
    });
    const fixed = (e: number): boolean => asData.includes(t) && !free.size && !tables.free(e).size;
    for (const e of tables.data.values[t] ?? []) if (shares(e) || fixed(e)) out.push({ tensor: t, axis: null, dim: e });
  }
  return out;
}

function less(a: number[], b: number[]): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
}
