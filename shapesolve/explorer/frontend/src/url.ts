// What is selected, bound and open, in the part of the address behind `#`: a page reloads, and is shared, as it is seen.

import type { Graph } from "./graph";
import type { Selection, State } from "./state";

/** Most scopes that an address lists. */
const MOST_OPEN = 60;

/** Keep the address and the page the same; returns a function that ends that. */
export function keepAddress(state: State, graph: Graph): () => void {
  const first = [...graph.view.open].sort().join();
  let written = "";
  const write = (): void => {
    written = encoded(state, graph, first);
    if (location.hash !== written) history.replaceState(null, "", written || location.pathname + location.search);
  };
  const read = (): void => {
    if (location.hash === written) return;
    apply(state, graph, new URLSearchParams(location.hash.slice(1)));
  };
  if (location.hash) apply(state, graph, new URLSearchParams(location.hash.slice(1)));
  state.onSelect(write);
  state.onSizes(write);
  graph.onDraw(write);
  addEventListener("hashchange", read);
  return () => removeEventListener("hashchange", read);
}

function encoded(state: State, graph: Graph, first: string): string {
  const { tables, data } = state;
  const params = new URLSearchParams();
  for (const [symbol, size] of state.sizes) params.append("size", `${data.symbols[symbol].name}=${size}`);
  const open = [...graph.view.open].sort();
  if (open.join() !== first && open.length <= MOST_OPEN) {
    if (!open.length) params.append("open", "");
    for (const scope of open) params.append("open", tables.scopePath(scope));
  }
  for (const what of ["shapes", "folded"] as const) if (graph.view[what]) params.append("show", what);
  const s = state.selection;
  if (s?.kind === "node") params.append("node", tables.label(s.node));
  else if (s?.kind === "tensor") params.append("tensor", tables.tensorName(s.tensor));
  else if (s?.kind === "scope") params.append("scope", tables.scopePath(s.scope));
  else if (s?.kind === "symbol") params.append("symbol", data.symbols[s.symbol].name);
  const text = params.toString();
  return text && `#${text}`;
}

function apply(state: State, graph: Graph, params: URLSearchParams): void {
  const { tables, data } = state;
  const sizes = params.getAll("size").flatMap((text): [number, bigint][] => {
    const at = text.lastIndexOf("=");
    const symbol = data.symbols.findIndex((s) => s.name === text.slice(0, at));
    return symbol >= 0 && /^\d{1,13}$/.test(text.slice(at + 1)) ? [[symbol, BigInt(text.slice(at + 1))]] : [];
  });
  for (const what of params.getAll("show")) if (what === "shapes" || what === "folded") graph.setShown(what, true);
  if (params.has("open")) graph.setOpen(params.getAll("open").map((path) => tables.scopeAt(path)).filter((s) => s >= 0));
  state.setSizes(sizes);
  const found = selected(state, params);
  if (found) state.select(found, true);
}

function selected(state: State, params: URLSearchParams): Selection {
  const { tables, data } = state;
  const at = (name: string, find: (text: string) => number): number => {
    const text = params.get(name);
    return text === null ? -1 : find(text);
  };
  const node = at("node", (text) => data.nodes.findIndex(([label]) => label === text));
  if (node >= 0) return { kind: "node", node };
  const tensor = at("tensor", (text) => data.tensors.findIndex(([name]) => name === text));
  if (tensor >= 0) return { kind: "tensor", tensor };
  const scope = at("scope", (text) => tables.scopeAt(text));
  if (scope >= 0) return { kind: "scope", scope };
  const symbol = at("symbol", (text) => data.symbols.findIndex((s) => s.name === text));
  return symbol >= 0 ? { kind: "symbol", symbol } : null;
}
