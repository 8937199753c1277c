// Right column: what is known of the selected tensor, node or scope.

import { TensorKind } from "./data";
import { derivation } from "./derivation";
import { clipped, counted, fill, h, section } from "./dom";
import type { Graph } from "./graph";
import { findingItem, nodeLinks } from "./sizes";
import type { State } from "./state";

const KIND_NAMES = ["computed", "graph input", "stored in the model"];
const MANY = 24;

export function detailsPanel(state: State, graph: () => Graph): HTMLElement {
  const element = h("aside", { class: "details", "aria-label": "Details", tabindex: -1 });
  const refresh = (): void => {
    const s = state.selection;
    element.classList.toggle("idle", s === null);
    if (s === null) fill(element, hint(), modelSection(state));
    else if (s.kind === "node") fill(element, nodeDetails(state, s.node));
    else if (s.kind === "tensor") fill(element, tensorDetails(state, s.tensor));
    else if (s.kind === "symbol") fill(element, symbolDetails(state, s.symbol));
    else if (s.kind === "scope") fill(element, scopeDetails(state, s.scope, graph()));
    else if (s.tensors.length === 1) fill(element, tensorDetails(state, s.tensors[0]));
    else fill(element, h("h2", {}, counted(s.tensors.length, "tensor")), tensorList(state, s.tensors));
  };
  state.onSelect(() => {
    refresh();
    element.scrollTop = 0;
  });
  state.onSizes(() => {
    const top = element.scrollTop;
    refresh();
    element.scrollTop = top;
  });
  refresh();
  return element;
}

function hint(): HTMLElement {
  const keys: [string, string][] = [
    ["/", "search"], ["↑ ↓ ← →", "walk along the graph"], ["Enter", "open or close a scope"],
    ["+ − 0", "zoom, fit"], ["w a s d", "move the picture"], ["Esc", "clear the selection"],
  ];
  return h("div", { class: "hint" },
    h("h2", {}, "Nothing selected"),
    h("p", {}, "Select a box or a line of the graph. Double-click a box with a thick border to open it."),
    h("table", {}, h("tbody", {}, keys.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))))),
    h("p", { class: "muted" }, "Keys work when the graph has the focus."));
}

function modelSection(state: State): HTMLElement | null {
  const { about } = state.data.model;
  return about.length ? section("Model", true, properties(about)) : null;
}

function properties(rows: [string, string][]): HTMLElement {
  return h("table", { class: "properties" }, h("tbody", {}, rows.map(([name, text]) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, text)))));
}

function symbolDetails(state: State, symbol: number): (HTMLElement | null)[] {
  const { name, input, why } = state.data.symbols[symbol];
  const tensors = state.tables.tensorsOf(symbol);
  return [
    h("h2", { class: "path" }, name),
    h("p", { class: "muted" }, why ?? (input ? "a size of the inputs" : "a size computed from data")),
    section(`In the shape of ${counted(tensors.length, "tensor")}`, true, tensorList(state, tensors)),
  ];
}

export function tensorLink(state: State, tensor: number): HTMLElement {
  return h("button", { type: "button", class: "link", onclick: () => state.select({ kind: "tensor", tensor }, true) }, state.tables.tensorName(tensor) || "(unnamed)");
}

function tensorList(state: State, tensors: number[]): HTMLElement {
  const shown = tensors.slice(0, 200);
  return h("ul", { class: "tensors" }, shown.map((t) => h("li", {},
    t < 0 ? h("span", { class: "muted" }, "left out") : tensorLink(state, t),
    t < 0 ? null : h("div", {}, h("span", { class: "shape" }, state.shape(t)), " ", h("span", { class: "muted" }, state.tables.dtype(t)),
      state.data.contents[t] ? h("span", { class: "muted" }, " = ", h("code", {}, clipped(state.data.contents[t], 40))) : null))));
}

function nodeDetails(state: State, node: number): (HTMLElement | null)[] {
  const { tables, data } = state;
  const [label, , scope, reads, makes] = data.nodes[node];
  const stated = data.constraints[node] ?? [];
  const attributes = data.attributes[node] ?? [];
  const findings = data.findings.filter((f) => f.nodes.includes(node));
  return [
    h("h2", {}, tables.op(node)),
    h("p", { class: "path" }, label),
    scope >= 0 ? h("p", { class: "muted path" }, "in ", h("button", {
      type: "button", class: "link", onclick: () => state.select({ kind: "scope", scope }, true),
    }, tables.scopePath(scope))) : null,
    state.broken.has(node) ? h("p", { class: "bad" }, "✗ These sizes break a condition of this node.") : null,
    attributes.length ? section("Attributes", true, properties(attributes)) : null,
    reads.length ? section("Inputs", true, tensorList(state, reads)) : null,
    makes.length ? section("Outputs", true, tensorList(state, makes)) : null,
    stated.length ? section("Conditions", true, h("ul", { class: "stated" }, stated.map(([role, text, rule]) =>
      h("li", {}, h("span", { class: "badge" }, role), " ", h("code", {}, text), h("div", { class: "muted" }, rule))))) : null,
    findings.length ? section("Findings", true, h("ul", { class: "findings" }, findings.map((f) => findingItem(state, f)))) : null,
  ];
}

function tensorDetails(state: State, tensor: number): (HTMLElement | null)[] {
  const { tables } = state;
  const producer = tables.producer(tensor);
  const readers = tables.readers[tensor];
  const shape = tables.shape(tensor);
  const numbers = state.shape(tensor);
  const symbolic = state.symbolic(tensor);
  return [
    h("h2", { class: "path" }, tables.tensorName(tensor)),
    h("p", {}, h("span", { class: "muted" }, `${tables.dtype(tensor)} · ${KIND_NAMES[tables.kind(tensor)]}`)),
    h("p", { class: "shape big" }, symbolic),
    numbers !== symbolic ? h("p", { class: "shape big bound-shape" }, `= ${numbers}`) : null,
    state.data.contents[tensor] ? h("p", {}, "holds ", h("code", {}, state.data.contents[tensor])) : null,
    producer >= 0 && tables.kind(tensor) === TensorKind.Computed ? h("p", {}, "made by ", nodeLinks(state, [producer], 1)) : null,
    readers.length ? h("p", {}, `read by `, nodeLinks(state, readers, 4)) : null,
    shape?.length ? section("Dims", true, h("ol", { class: "dims", start: 0 }, shape.map((row) => dimItem(state, tensor, row)))) : null,
    derivationSection(state, tensor),
  ];
}

function dimItem(state: State, tensor: number, row: number): HTMLElement {
  const { tables, data } = state;
  const size = state.evaluator.size(row);
  const text = tables.text(row);
  const equal = data.equal.filter((members) => members.includes(row)).flatMap((m) => m.filter((r) => r !== row));
  const others = tables.isNumber(row) ? [] : tables.tensorsWith(row).filter((t) => t !== tensor);
  return h("li", {},
    h("code", {}, text), size !== null && size.toString() !== text ? h("b", {}, ` = ${size}`) : null,
    [...tables.free(row)].map((s) => data.symbols[s]).filter((s) => s.why).slice(0, 4).map((s) =>
      h("div", { class: "muted" }, h("code", {}, s.name), `: ${s.why}`)),
    equal.length ? h("div", { class: "muted" }, "equal to ", equal.map((r, i) => [i ? ", " : "", h("code", {}, tables.text(r))]).flat()) : null,
    others.length ? h("details", { class: "inner" }, h("summary", {}, `same in ${counted(others.length, "other tensor")}`),
      tensorList(state, others.slice(0, MANY))) : null);
}

function derivationSection(state: State, tensor: number): HTMLElement {
  const { tables, data } = state;
  const { sources, steps } = derivation(tables, tensor);
  const requires = (node: number): string[] => (data.constraints[node] ?? []).filter(([role]) => role === "requirement").map(([, text]) => text);
  const items = steps.map(({ node, tensor: made }) => h("li", {},
    h("button", { type: "button", class: "link", onclick: () => state.select({ kind: "node", node }, true) }, tables.op(node)), " ",
    h("span", { class: "muted path" }, tables.label(node)),
    h("div", { class: "shape" }, `${tables.data.nodes[node][3].filter((t) => t >= 0).map((t) => state.shape(t)).join(", ")} → ${state.shape(made)}`),
    requires(node).map((text) => h("div", {}, "needs ", h("code", {}, text)))));
  return section(`Derivation (${counted(steps.length, "step")})`, true,
    sources.length ? h("p", {}, "from ", sources.map((t, i) => [i ? ", " : "", tensorLink(state, t), " ", h("span", { class: "shape" }, state.shape(t))]).flat()) : null,
    h("ol", { class: "derivation" }, items.slice(0, 60)),
    items.length > 60 ? h("p", { class: "muted" }, `and ${items.length - 60} more`) : null);
}

function scopeDetails(state: State, scope: number, graph: Graph): HTMLElement[] {
  const { tables, data } = state;
  const ops = new Map<string, number>();
  let findings = 0;
  data.nodes.forEach((n, i) => {
    for (let s = n[2]; s >= 0; s = data.scopes[s][0]) {
      if (s !== scope) continue;
      ops.set(tables.op(i), (ops.get(tables.op(i)) ?? 0) + 1);
      findings += Number(state.faulty.has(i));
    }
  });
  const ranked = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 12);
  return [
    h("h2", { class: "path" }, tables.scopePath(scope)),
    h("p", {}, `${counted(tables.size[scope], "node")}, ${counted(tables.children[scope].length, "scope")} inside`, findings ? `, ${counted(findings, "node")} with findings` : ""),
    h("div", { class: "buttons" }, h("button", {
      type: "button", onclick: () => {
        graph.toggleScope(scope);
        state.select({ kind: "scope", scope });
      },
    }, graph.isOpen(scope) ? "Close" : "Open")),
    h("table", {}, h("tbody", {}, ranked.map(([op, n]) => h("tr", {}, h("td", {}, op), h("td", { class: "muted" }, String(n)))))),
  ];
}
