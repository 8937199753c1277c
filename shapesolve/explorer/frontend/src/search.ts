// Search over nodes, operators, scopes and tensors, as a combobox.

import { fill, h } from "./dom";
import type { Selection, State } from "./state";

const MOST = 40;

interface Hit { text: string; what: string; target: Selection; rank: number }

export function searchBox(state: State): HTMLElement {
  const list = h("ul", { class: "hits", role: "listbox", id: "hits", "aria-label": "Search results" });
  list.hidden = true;
  const input = h("input", {
    type: "search", placeholder: "Search names, operators, symbols, [shapes  ( / )", "aria-label": "Search", role: "combobox",
    "aria-expanded": "false", "aria-controls": "hits", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
  });
  const index = new Index(state);
  let hits: Hit[] = [];
  let active = -1;

  const close = (): void => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const choose = (i: number): void => {
    if (!hits[i]) return;
    close();
    state.select(hits[i].target, true);
  };
  const mark = (i: number): void => {
    active = i;
    [...list.children].forEach((item, k) => item.setAttribute("aria-selected", String(k === i)));
    input.setAttribute("aria-activedescendant", list.children[i]?.id ?? "");
    list.children[i]?.scrollIntoView({ block: "nearest" });
  };
  const show = (): void => {
    hits = index.find(input.value.trim().toLowerCase());
    fill(list, hits.length
      ? hits.map((hit, i) => h("li", { id: `hit-${i}`, role: "option", onmousedown: (e: Event) => { e.preventDefault(); choose(i); } },
          h("span", { class: "badge" }, hit.what), " ", hit.text))
      : [h("li", { class: "muted" }, "nothing found")]);
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(hits.length ? 0 : -1);
  };
  input.addEventListener("input", show);
  input.addEventListener("focus", () => input.value && show());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(Math.min(active + 1, hits.length - 1));
    else if (event.key === "ArrowUp") mark(Math.max(active - 1, 0));
    else if (event.key === "Enter") choose(active);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  return h("div", { class: "search" }, input, list);
}

class Index {
  private entries: { lower: string; text: string; what: string; target: Selection }[] | null = null;

  constructor(private readonly state: State) {}

  find(words: string): Hit[] {
    if (!words) return [];
    if (words.startsWith("[")) return this.ofShape(words);
    const hits: Hit[] = [];
    for (const entry of this.all()) {
      const at = entry.lower.indexOf(words);
      if (at < 0) continue;
      const rank = entry.lower === words ? 0 : entry.lower.endsWith(words) ? 1 : at === 0 ? 2 : 3;
      hits.push({ ...entry, rank });
    }
    return hits.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length).slice(0, MOST);
  }

  /** Tensors by their shape, as it is written or at the sizes that are given: a part of it is enough. */
  private ofShape(words: string): Hit[] {
    const wanted = words.replaceAll(" ", "");
    const hits: Hit[] = [];
    for (let tensor = 0; tensor < this.state.data.tensors.length && hits.length < MOST; tensor++) {
      const shapes = [this.state.symbolic(tensor), this.state.shape(tensor)];
      const found = shapes.find((s) => s.toLowerCase().replaceAll(" ", "").includes(wanted));
      if (found) hits.push({ text: `${this.state.tables.tensorName(tensor)} ${found}`, what: "shape", target: { kind: "tensor", tensor }, rank: 0 });
    }
    return hits;
  }

  private all(): NonNullable<Index["entries"]> {
    if (this.entries) return this.entries;
    const { data, tables } = this.state;
    this.entries = [];
    const add = (text: string, what: string, target: Selection): void => {
      this.entries!.push({ lower: text.toLowerCase(), text, what, target });
    };
    data.symbols.forEach(({ name }, symbol) => add(name, "symbol", { kind: "symbol", symbol }));
    data.scopes.forEach((_, scope) => add(tables.scopePath(scope), "scope", { kind: "scope", scope }));
    data.nodes.forEach(([label], node) => add(label, tables.op(node), { kind: "node", node }));
    data.tensors.forEach(([name], tensor) => add(name, "tensor", { kind: "tensor", tensor }));
    for (const entry of this.entries) if (entry.target?.kind === "node") entry.lower += ` ${entry.what.toLowerCase()}`;
    return this.entries;
  }
}
