// The page: header, three columns, and what ties them together.

import { type Data, NodeKind } from "./data";
import { deploymentPanel } from "./deploy";
import { detailsPanel } from "./details";
import { counted, h } from "./dom";
import { Graph } from "./graph";
import { keepAddress } from "./url";
import { searchBox } from "./search";
import { contractPanel, findingsPanel, sizesPanel } from "./sizes";
import { State } from "./state";

export { Tables } from "./data";
export { derivation } from "./derivation";
export { Evaluator } from "./evaluate";
export { human } from "./deploy";
export { partly } from "./partly";

const FORMAT = 4;

/** Build the explorer inside `root`; returns a function that takes it apart. */
export function mount(root: HTMLElement, data: Data): () => void {
  if (data.format !== FORMAT) {
    root.textContent = `This explorer reads format ${FORMAT}, the data has format ${data.format}.`;
    return () => undefined;
  }
  root.classList.add("shapesolve-explorer");
  const state = new State(data);
  const canvas = h("div", {
    class: "canvas", tabindex: 0, role: "application", "aria-label": "Graph. Arrow keys walk along it, Enter opens a scope.",
  });
  let graph: Graph | null = null; // made once it has a place to be in: a notebook fills elements before it shows them
  let leave = (): void => undefined;
  const shown = (): Graph => graph!; // what asks is clicked, so there is one
  const live = h("div", { class: "visually-hidden", "aria-live": "polite" });
  const body = h("div", { class: "columns" },
    h("nav", { class: "left", "aria-label": "Sizes, contract, findings and deployment" },
      sizesPanel(state), contractPanel(state), findingsPanel(state), deploymentPanel(state)),
    h("main", { class: "middle" }, canvas, toolbar(data, shown)),
    detailsPanel(state, shown));
  root.replaceChildren(header(state, root, shown), body, live);
  const fill = (): void => {
    if (graph) graph.restyle();
    else if (canvas.clientWidth && canvas.clientHeight) {
      const made = (graph = new Graph(state, canvas));
      const tick = (): void => root.querySelectorAll<HTMLInputElement>("[data-show]").forEach((input) => {
        input.checked = made.view[input.dataset.show as "folded" | "shapes"];
      });
      made.onDraw(tick);
      if (root.dataset.page !== undefined) leave = keepAddress(state, graph);
    }
  };
  fill();
  state.onSelect(() => (live.textContent = announced(state)));
  const observer = new ResizeObserver(fill);
  observer.observe(canvas);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fill);
  const slash = (event: KeyboardEvent): void => {
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key !== "/" || typing) return;
    event.preventDefault();
    const search = root.querySelector<HTMLInputElement>(".search input");
    search?.focus();
    search?.select();
  };
  root.addEventListener("keydown", slash);
  if (root.dataset.page !== undefined) document.addEventListener("keydown", slash);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", fill);
    document.removeEventListener("keydown", slash);
    leave();
    graph?.destroy();
    root.replaceChildren();
  };
}

function header(state: State, root: HTMLElement, graph: () => Graph): HTMLElement {
  const { model } = state.data;
  const badge = h("span", { role: "status" });
  const judge = (): void => {
    const [text, kind] = verdict(state);
    badge.textContent = text;
    badge.className = `badge ${kind}`;
  };
  state.onSizes(judge);
  judge();
  const themes = ["auto", "light", "dark"];
  const theme = h("button", {
    type: "button", class: "theme", title: "Colours: as the system says, light, dark", onclick: () => {
      const next = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
      root.dataset.theme = next;
      theme.textContent = `◐ ${next}`;
      graph().restyle();
    },
  }, "◐ auto");
  return h("header", {},
    h("h1", { title: model.name }, model.name),
    h("span", { class: "muted" }, `${counted(model.nodes, "node")} · opset ${model.opset}`),
    badge,
    searchBox(state), theme);
}

/** What is worst: sizes that break a condition, then what the analysis found. */
function verdict(state: State): [string, "error" | "warning" | "good"] {
  const { findings, contract } = state.data;
  const broken = state.violated || state.failing.length;
  if (broken) return [`${counted(broken, "condition")} violated`, "error"];
  const errors = findings.filter((f) => f.severity === "error").length;
  if (errors) return [counted(errors, "error"), "error"];
  if (contract.impossible) return ["no sizes run", "error"];
  const warnings = findings.filter((f) => f.severity === "warning").length;
  if (warnings) return [counted(warnings, "warning"), "warning"];
  return [contract.terms.some((t) => t.kind !== "") ? "runs, with conditions" : "no problems found", "good"];
}

function save(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function toolbar(data: Data, graph: () => Graph): HTMLElement {
  const button = (text: string, title: string, act: () => void): HTMLElement =>
    h("button", { type: "button", title, "aria-label": title, onclick: act }, text);
  const check = (text: string, kind: NodeKind, what: "folded" | "shapes"): HTMLElement | null =>
    data.nodes.some((n) => n[5] === kind)
      ? h("label", {}, h("input", {
          type: "checkbox", "data-show": what, onchange: (e: Event) => graph().setShown(what, (e.target as HTMLInputElement).checked),
        }), ` ${text}`)
      : null;
  const small = data.nodes.length <= 400;
  return h("div", { class: "toolbar", role: "toolbar", "aria-label": "View" },
    button("+", "Zoom in", () => graph().zoomBy(1.25)),
    button("−", "Zoom out", () => graph().zoomBy(0.8)),
    button("Fit", "Fit the whole graph", () => graph().fit()),
    data.scopes.length ? button("Close all", "Close all scopes", () => graph().closeAll()) : null,
    data.scopes.length && small ? button("Open all", "Open all scopes", () => graph().openAll()) : null,
    check("shapes", NodeKind.Shapes, "shapes"), check("constants", NodeKind.Folded, "folded"),
    button("SVG", "Save the picture as SVG", () => save(graph().svg(), `${data.model.name}.svg`)),
    button("PNG", "Save the picture as PNG", () => save(graph().png(), `${data.model.name}.png`)));
}

function announced(state: State): string {
  const s = state.selection;
  if (!s) return "";
  if (s.kind === "node") {
    const shapes = state.data.nodes[s.node][4].filter((t) => t >= 0).map((t) => state.shape(t));
    return `${state.tables.op(s.node)} ${state.tables.label(s.node)} ${shapes.join(", ")}`;
  }
  if (s.kind === "tensor") return `${state.tables.tensorName(s.tensor)} ${state.shape(s.tensor)}`;
  if (s.kind === "scope") return `scope ${state.tables.scopePath(s.scope)}`;
  if (s.kind === "symbol") return `symbol ${state.data.symbols[s.symbol].name}`;
  return counted(s.tensors.length, "tensor");
}
