// Left column: sizes that run, a profile for compilers, what a run costs, and memory against one size.

import { curve, type Point } from "./curve";
import type { Cost, Deployment, Profile, Way } from "./data";
import { fill, h, section } from "./dom";
import { Rows } from "./evaluate";
import type { State } from "./state";

export function deploymentPanel(state: State): HTMLElement | null {
  const found = state.data.deployment;
  if (!found) return null;
  return section("Deployment", false,
    found.accepted.length ? acceptedTable(state, found) : null,
    found.profiles.map((p, i) => profileTable(state, found, p, found.profiles.length > 1 ? ` ${i + 1}` : "")),
    costTable(state, found.cost),
    found.ways.length ? memoryCurve(state, found) : null);
}

function use(state: State, names: number[], sizes: number[], text: string, title: string): HTMLElement {
  const act = (): void => state.setSizes(names.map((symbol, i) => [symbol, BigInt(sizes[i])]));
  return h("button", { type: "button", class: "link", title, "aria-label": title, onclick: act }, text);
}

function table(caption: string, head: (HTMLElement | string)[], rows: (HTMLElement | string)[][]): HTMLElement {
  return h("div", { class: "scrolled", tabindex: 0, role: "group", "aria-label": caption }, h("table", { class: "numbers" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, cell)))),
    h("tbody", {}, rows.map(([first, ...rest]) =>
      h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell) => h("td", {}, cell)))))));
}

function acceptedTable(state: State, { names, accepted }: Deployment): HTMLElement {
  const rows = accepted.map((sizes, k) => [
    use(state, names, sizes, `${k + 1}`, `Set these sizes: ${told(state, names, sizes)}`), ...sizes.map(String),
  ]);
  return table("Smallest sizes that run", ["set", ...names.map((s) => state.data.symbols[s].name)], rows);
}

function profileTable(state: State, { names }: Deployment, profile: Profile, number: string): HTMLElement {
  const corners = ["min", "opt", "max"] as const;
  const head = corners.map((corner) => use(
    state, names, profile[corner], corner, `Set the sizes of ${corner}: ${told(state, names, profile[corner])}`));
  const rows = names.map((s, i) => [state.data.symbols[s].name, ...corners.map((corner) => String(profile[corner][i]))]);
  return h("div", {},
    table(`Profile${number} for a compiler`, ["size", ...head], rows),
    profile.conditions.length
      ? h("p", { class: "muted" }, "Sizes between must keep ", profile.conditions.flatMap((c, i) => [i ? ", " : "", h("code", {}, c)]), ".")
      : null);
}

function told(state: State, names: number[], sizes: number[]): string {
  return names.map((s, i) => `${state.data.symbols[s].name} = ${sizes[i]}`).join(", ");
}

function costTable(state: State, cost: Cost): HTMLElement {
  const element = h("div", {});
  const refresh = (): void => {
    const value = (rows: number[], unit: string): HTMLElement | string => {
      const sizes = rows.map((row) => state.evaluator.size(row));
      if (sizes.every((size) => size !== null)) return human(sizes.reduce((a, b) => (a! > b! ? a : b))!, unit);
      const text = rows.length === 1 ? state.dim(rows[0], 120) : "depends on sizes that are open";
      return rows.length === 1 ? h("code", {}, text) : h("span", { class: "muted" }, text);
    };
    fill(element, table("Cost of one run", ["", "at the sizes above"], [
      ["parameters", `${human(BigInt(cost.parameters), "")} in ${human(BigInt(cost.parameterBytes), "B")}`],
      ["MACs", value([cost.macs], "")],
      ["FLOPs", value([cost.flops], "")],
      ["activations", value([cost.activations], "B")],
      ["peak, each tensor by itself", value(cost.peak, "B")],
      ["peak, memory shared", value(cost.shared, "B")],
    ]), cost.remarks.map((remark) => h("p", { class: "muted" }, `Note: ${remark}.`)));
  };
  state.onSizes(refresh);
  refresh();
  return element;
}

/** `1.50 GB`: decimal units, as the command line has them. */
export function human(n: bigint, unit: string): string {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let k = 0;
  while (k + 1 < prefixes.length && 2n * n >= (k ? 1999n : 2000n) * 1000n ** BigInt(k)) k++;
  if (!k) return `${n.toLocaleString("en")} ${unit}`.trim();
  return `${Number((Number(n) / 1000 ** k).toPrecision(3))} ${prefixes[k]}${unit}`;
}

function memoryCurve(state: State, found: Deployment): HTMLElement {
  const { symbols, contract } = state.data;
  const { names, cost, ways } = found;
  const terms = contract.terms.filter((t) => t.kind === "" || t.kind === "assumed").map((t) => t.row);
  const rows = new Rows(state.data, [...cost.peak, ...cost.shared, ...terms]);
  const name = (symbol: number): string => symbols[symbol].name;
  const picture = h("div", {});
  let way = ways[0];
  const pointsOf = (given: Map<number, bigint>): Point[] => way.sizes.flatMap((size, k) => {
    const sizes = new Map([...given, [way.symbol, BigInt(size)]]);
    if (way.follows >= 0) sizes.set(way.follows, BigInt(way.following[k]));
    rows.bind(sizes);
    const both = [greatest(rows, cost.peak), greatest(rows, cost.shared)];
    if (terms.some((row) => rows.truth(row) === false) || both.includes(null)) return [];
    return [{ x: size, y: both.map((n) => Number(n! + BigInt(cost.parameterBytes))) }];
  });
  const draw = (): void => {
    const usual = new Map(names.map((s, i) => [s, BigInt(found.usual[i])]));
    let given = new Map([...usual, ...[...state.sizes].filter(([s]) => usual.has(s))]);
    let points = pointsOf(given);
    if (points.length < 2) points = pointsOf((given = usual));
    const others = names.filter((s) => s !== way.symbol && s !== way.follows).map((s) => `${name(s)} = ${given.get(s)}`);
    if (way.follows >= 0) others.push(`${name(way.follows)} grows along`);
    fill(picture,
      points.length > 1
        ? curve(points, ["each tensor by itself", "memory shared"], (n) => human(BigInt(Math.round(n)), "B"), `Memory against ${name(way.symbol)}`)
        : h("p", { class: "muted" }, "It depends on sizes that are open."),
      others.length ? h("p", { class: "muted" }, `With ${others.join(", ")}.`) : null);
  };
  const pick = (e: Event): void => {
    way = ways.find((w: Way) => w.symbol === Number((e.target as HTMLSelectElement).value))!;
    draw();
  };
  const choice = h("select", { "aria-label": "Size to draw memory against", onchange: pick },
    ways.map((w) => h("option", { value: w.symbol }, name(w.symbol))));
  state.onSizes(draw);
  draw();
  return h("div", {}, h("p", {}, h("b", {}, "Memory"), " (weights and tensors) against ", choice), picture);
}

function greatest(rows: Rows, of: number[]): bigint | null {
  let found: bigint | null = 0n;
  for (const row of of) {
    const size = rows.size(row);
    if (size === null) return null;
    if (size > found) found = size;
  }
  return found;
}
