// Left column: sizes for the dim names, the contract, the findings.

import type { FindingEntry, TermEntry } from "./data";
import { clipped, counted, fill, h, prose, section } from "./dom";
import type { State } from "./state";

const LARGEST = 10n ** 12n;

export function sizesPanel(state: State): HTMLElement {
  const symbols = state.data.symbols.map((symbol, i) => ({ ...symbol, i }));
  const inputs = symbols.filter((s) => s.input);
  const data = symbols.filter((s) => !s.input && s.is === undefined);
  const rows = [...inputs, ...data].map((s) => new SizeRow(state, s.i));
  const refresh = (): void => rows.forEach((row) => row.refresh());
  state.onSizes(refresh);
  refresh();
  const samples = inputs.filter((s) => s.sample !== undefined && s.is === undefined);
  const bindAll = (): void => state.setSizes(samples.map((s) => [s.i, BigInt(s.sample!)]));
  return section(
    "Sizes", true,
    inputs.length === 0 ? h("p", { class: "muted" }, "All input sizes are fixed.") : null,
    rows.slice(0, inputs.length).map((r) => r.element),
    data.length
      ? h("details", { class: "inner" }, h("summary", {}, `${counted(data.length, "size")} computed from data`),
          rows.slice(inputs.length).map((r) => r.element))
      : null,
    h("div", { class: "buttons" },
      h("button", { type: "button", id: "bind-all", onclick: bindAll, title: "Small sizes for all names" }, "Example sizes"),
      h("button", { type: "button", id: "unbind-all", onclick: () => state.setSizes([]), title: "Back to names" }, "Clear")),
  );
}

class SizeRow {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly number: HTMLInputElement;
  private readonly clear: HTMLButtonElement;
  private readonly follows: HTMLElement;
  private readonly message = h("span", { class: "bad message", role: "alert" });

  constructor(private readonly state: State, private readonly symbol: number) {
    const { name, sample, input } = state.data.symbols[symbol];
    const first = sample ?? 2;
    const highest = Math.max(input ? 32 : 16, first * 4);
    const id = `size-${symbol}`;
    this.slider = h("input", {
      type: "range", min: 1, max: highest, value: first, "aria-label": `${name} slider`,
      oninput: () => this.set(this.slider.value),
    });
    this.number = h("input", {
      type: "number", id, min: 0, step: 1, placeholder: "any", inputmode: "numeric",
      oninput: () => this.set(this.number.value),
    });
    this.clear = h("button", {
      type: "button", class: "icon", title: `Unbind ${name}`, "aria-label": `Unbind ${name}`,
      onclick: () => state.setSize(symbol, null),
    }, "×");
    this.follows = h("span", { class: "muted follows" });
    this.element = h("div", { class: "size" }, h("label", { for: id, title: name }, name), this.slider, this.number, this.clear, this.follows, this.message);
  }

  private set(text: string): void {
    const whole = /^\d+$/.test(text);
    const size = whole && text.length < 20 && BigInt(text) <= LARGEST ? BigInt(text) : null;
    const invalid = size === null && (text !== "" || this.number.validity.badInput);
    this.state.setSize(this.symbol, size);
    this.say(invalid ? `A size is a whole number from 0 to ${LARGEST.toLocaleString("en")}.` : "");
  }

  private say(message: string): void {
    this.message.textContent = message;
    this.number.setAttribute("aria-invalid", String(message !== ""));
  }

  refresh(): void {
    const size = this.state.sizes.get(this.symbol);
    const entry = this.state.data.symbols[this.symbol];
    this.element.classList.toggle("bound", size !== undefined);
    this.clear.disabled = size === undefined;
    if (size === undefined) {
      if (document.activeElement !== this.number) {
        this.number.value = "";
        this.say("");
      }
    } else {
      this.say("");
      if (size > BigInt(this.slider.max)) this.slider.max = String(size * 2n);
      this.slider.value = size.toString();
      if (this.number.value !== size.toString()) this.number.value = size.toString();
    }
    let note = "";
    if (size === undefined && entry.is !== undefined) {
      const value = this.state.evaluator.size(entry.is);
      const text = this.state.tables.text(entry.is);
      note = `= ${text}${value !== null && text !== value.toString() ? ` = ${value}` : ""}`;
    }
    this.follows.textContent = note || (entry.why ?? "");
  }
}

export function contractPanel(state: State): HTMLElement {
  const { contract } = state.data;
  const body = h("div", { class: "contract" });
  const title = h("span", {}, "Contract");
  const element = section("", true, body);
  fill(element.firstElementChild as HTMLElement, title);
  const headings: [TermEntry["kind"], string][] = [
    ["usual", contract.scope ? `Input sizes must satisfy, ${contract.scope}:` : "Input sizes must satisfy:"], ["", "At every size:"],
    ["assumed", "Assumed:"], ["declared", "Declared by the model:"], ["data", "Conditions on data:"],
  ];
  const refresh = (): void => {
    if (contract.impossible) {
      fill(body, h("p", { class: "bad" }, "✗ No input sizes run: the model contradicts itself."));
      return;
    }
    if (!contract.terms.some((t) => t.kind !== "") && !state.violated) fill(body, h("p", { class: "muted" }, contract.nothing));
    else fill(body, headings.flatMap(([kind, heading]) => {
      // exact conditions are shown when one fails that no usual one speaks of
      const fails = (t: TermEntry): boolean => state.evaluator.truth(t.row) === false;
      const exact = kind === "" && !contract.terms.some((t) => t.kind === "usual" && fails(t));
      const terms = contract.terms.filter((t) => t.kind === kind && (kind !== "" || (exact && fails(t))));
      return terms.length ? [h("p", { class: "muted" }, heading), h("ul", { class: "terms" }, terms.map((t) => termItem(state, t)))] : [];
    }));
    if (contract.terms.length && contract.limits) body.append(h("p", { class: "muted" }, contract.limits));
    const { violated: broken, failing } = state;
    if (failing.length && !broken) {
      body.append(h("p", { class: "bad" }, `✗ ${counted(failing.length, "requirement")} fails: ${state.tables.text(failing[0])}`));
    }
    fill(title, "Contract", broken ? h("span", { class: "badge error" }, `${broken} violated`) : null);
  };
  state.onSizes(refresh);
  refresh();
  return element;
}

function termItem(state: State, term: TermEntry): HTMLElement {
  const truth = state.evaluator.truth(term.row);
  const [sign, word, css] = truth === false ? ["✗", "violated", "bad"] : truth ? ["✓", "holds", "good"] : ["·", "open", ""];
  return h("li", { class: `term ${css}` },
    h("span", { class: "sign", title: word, "aria-label": word }, sign),
    h("code", { title: term.text }, clipped(term.text, 180)), nodeLinks(state, term.nodes, 3));
}

/** Buttons that jump to nodes. */
export function nodeLinks(state: State, nodes: number[], limit: number): HTMLElement {
  const shown = nodes.slice(0, limit);
  const more = nodes.length - shown.length;
  return h("span", { class: "links" },
    shown.map((n) => h("button", { type: "button", class: "link", onclick: () => state.select({ kind: "node", node: n }, true) }, state.tables.label(n))),
    more > 0 ? h("button", {
      type: "button", class: "link", onclick: (event: Event) => {
        const button = event.currentTarget as HTMLElement;
        button.parentElement!.replaceWith(nodeLinks(state, nodes, limit + 50));
      },
    }, `${more} more…`) : null);
}

export function findingsPanel(state: State): HTMLElement {
  const { findings } = state.data;
  const errors = findings.filter((f) => f.severity === "error").length;
  const title = findings.length ? `Findings (${findings.length})` : "Findings";
  return section(title, findings.length > 0 && (errors > 0 || findings.length < 20),
    findings.length ? h("ul", { class: "findings" }, findings.map((f) => findingItem(state, f))) : h("p", { class: "muted" }, "None."));
}

export function findingItem(state: State, finding: FindingEntry): HTMLElement {
  const jump = (): void => {
    if (finding.nodes.length) state.select({ kind: "node", node: finding.nodes[0] }, true);
  };
  return h("li", { class: `finding ${finding.severity}` },
    h("button", { type: "button", class: "headline", onclick: jump, title: finding.nodes.length ? "Show in the graph" : "" },
      h("span", { class: `badge ${finding.severity}` }, `${finding.severity} ${finding.code}`), " ", prose(finding.title)),
    finding.node ? h("div", { class: "muted path" }, finding.node, finding.op && !finding.node.includes(finding.op) ? ` (${finding.op})` : "") : null,
    finding.operands.length
      ? h("ul", { class: "operands" }, finding.operands.map(([name, shape, origin]) => h("li", {},
          h("span", { class: "shape" }, shape), " ", name, " ", h("span", { class: "muted" }, origin))))
      : null,
    finding.steps.length ? h("ol", {}, finding.steps.map(([text]) => h("li", {}, prose(text)))) : null,
    finding.notes.map((n) => h("p", { class: "note" }, prose(n))),
    finding.help ? h("p", { class: "help" }, h("b", {}, "help: "), prose(finding.help)) : null,
    finding.nodes.length > 1 ? nodeLinks(state, finding.nodes, 4) : null);
}
