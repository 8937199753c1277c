// A small chart of some values against a size.

import { h } from "./dom";

export interface Point { x: number; y: number[] }

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [290, 170, 58, 10, 10, 24];
const NS = "http://www.w3.org/2000/svg";

/** Lines through `points`, one per name in `names`; a size is read off by pointing at it. */
export function curve(points: Point[], names: string[], text: (y: number) => string, title: string): HTMLElement {
  const first = points[0].x;
  const last = points[points.length - 1].x;
  const top = Math.max(...points.flatMap((p) => p.y)) || 1;
  const x = (size: number): number => LEFT + ((size - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${span(points, names, text)}` });
  for (let k = 0; k <= 2; k++) {
    picture.append(s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y((top * k) / 2), y2: y((top * k) / 2), class: "grid" }));
    picture.append(s("text", { x: LEFT - 6, y: y((top * k) / 2) + 4, "text-anchor": "end" }, text((top * k) / 2)));
  }
  for (const size of new Set([first, last])) {
    picture.append(s("text", { x: x(size), y: HEIGHT - 6, "text-anchor": size === first ? "start" : "end" }, size.toLocaleString("en")));
  }
  names.forEach((_, i) => picture.append(s("polyline", {
    class: `line line-${i}`, points: points.map((p) => `${x(p.x).toFixed(1)},${y(p.y[i]).toFixed(1)}`).join(" "),
  })));
  const mark = s("line", { y1: TOP, y2: HEIGHT - BOTTOM, class: "mark", visibility: "hidden" });
  picture.append(mark);
  const legend = (p: Point): string[] => names.map((name, i) => `${name}: ${text(p.y[i])}`);
  const note = h("p", { class: "reading" });
  const tell = (p: Point): void => note.replaceChildren(
    h("span", {}, `${p.x.toLocaleString("en")} → `), ...legend(p).flatMap((t, i) => [i ? ", " : "", h("span", { class: `reading-${i}` }, t)]));
  tell(points[points.length - 1]);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    const near = points.reduce((a, b) => (Math.abs(x(b.x) - at) < Math.abs(x(a.x) - at) ? b : a));
    mark.setAttribute("x1", String(x(near.x)));
    mark.setAttribute("x2", String(x(near.x)));
    mark.setAttribute("visibility", "visible");
    tell(near);
  });
  return h("div", { class: "curve" }, picture, note);
}

function span(points: Point[], names: string[], text: (y: number) => string): string {
  const [a, b] = [points[0], points[points.length - 1]];
  return names.map((name, i) => `${name} ${text(a.y[i])} at ${a.x}, ${text(b.y[i])} at ${b.x}`).join("; ");
}

function s(tag: string, props: Record<string, string | number>, text = ""): SVGElement {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  if (text) element.append(text);
  return element as SVGElement;
}
