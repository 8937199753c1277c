// Elements without markup: every text of the model becomes a text node.

type Child = Node | string | null | undefined | false;
type Props = Record<string, string | number | boolean | ((event: any) => void) | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, props: Props = {}, ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child || child === "") element.append(child);
  return element;
}

export function fill(parent: HTMLElement, ...children: (Child | Child[])[]): void {
  parent.replaceChildren(...(children.flat().filter(Boolean) as (Node | string)[]));
}

export function section(title: string, open: boolean, ...children: (Child | Child[])[]): HTMLDetailsElement {
  const details = h("details", { class: "section" }, h("summary", {}, title), ...children);
  details.open = open;
  return details;
}

export function clipped(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/** A text whose parts in backticks are code. */
export function prose(text: string): (HTMLElement | string)[] {
  return text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? h("code", {}, part) : part)).filter((part) => part !== "");
}

/** "1 node", "2 nodes". */
export function counted(n: number, noun: string): string {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}
