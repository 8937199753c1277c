// Where the texts of lines stand: on their line, beside what is there already, or nowhere while there is no room.

import type cytoscape from "cytoscape";

interface Point { x: number; y: number }
interface Box { x1: number; y1: number; x2: number; y2: number }

export const LINE_FONT = 10;
const HEIGHT = LINE_FONT + 6;
const TITLE_HEIGHT = 16;
const CELL = 160;
/** Places along a line, best first; then how far off its middle, in widths of the text: the line stays under it. */
const ALONG = [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78];
const BESIDE = [0, 0.25, -0.25, 0.44, -0.44];

/** Boxes that are taken, found by the cells of a grid. */
class Taken {
  private readonly cells = new Map<string, Box[]>();

  add(box: Box): void {
    for (const key of this.keys(box)) {
      const cell = this.cells.get(key);
      if (cell) cell.push(box); else this.cells.set(key, [box]);
    }
  }

  isFree(box: Box): boolean {
    for (const key of this.keys(box)) {
      for (const b of this.cells.get(key) ?? []) {
        if (b.x1 < box.x2 && box.x1 < b.x2 && b.y1 < box.y2 && box.y1 < b.y2) return false;
      }
    }
    return true;
  }

  private *keys(box: Box): Generator<string> {
    for (let x = Math.floor(box.x1 / CELL); x <= Math.floor(box.x2 / CELL); x++) {
      for (let y = Math.floor(box.y1 / CELL); y <= Math.floor(box.y2 / CELL); y++) yield `${x},${y}`;
    }
  }
}

export class Labels {
  private readonly paths = new Map<string, Point[]>();
  private readonly last = new Map<string, number>(); // a text keeps its place while it can
  private readonly solid: Box[] = [];
  private readonly context = document.createElement("canvas").getContext("2d")!;

  /** Remembers where boxes and lines are: to be made anew when these move. */
  constructor(private readonly edges: cytoscape.EdgeCollection, nodes: cytoscape.NodeCollection, private readonly font: string) {
    nodes.forEach((node) => {
      const box = node.boundingBox({ includeLabels: false, includeOverlays: false });
      if (node.isParent()) this.solid.push(titleBox(box, this.width(String(node.data("label")), 12, "bold")));
      else this.solid.push(box);
    });
    edges.forEach((edge) => {
      if (!edge.hasClass("far")) this.paths.set(edge.id(), pathOf(edge));
    });
  }

  /** Give every line the offset of its text from its middle, and the class `crowded` where there is no room. */
  place(): void {
    const taken = new Taken();
    this.solid.forEach((box) => taken.add(box));
    const lines = this.edges.toArray().filter((e) => this.paths.has(e.id()));
    const lengths = new Map(lines.map((e) => [e, lengthOf(this.paths.get(e.id())!)]));
    lines.sort((a, b) => lengths.get(a)! - lengths.get(b)!); // the shorter, the fewer places
    for (const edge of lines) this.placeOne(edge, taken);
  }

  private placeOne(edge: cytoscape.EdgeSingular, taken: Taken): void {
    const path = this.paths.get(edge.id())!;
    const width = this.width(String(edge.data("label")), LINE_FONT, "") + 6;
    const middle = edge.midpoint();
    const before = this.last.get(edge.id());
    const all = ALONG.length * BESIDE.length;
    for (let k = before === undefined ? 0 : -1; k < all; k++) {
      const choice = k < 0 ? before! : k;
      const at = pointAt(path, ALONG[choice % ALONG.length]);
      const x = at.x + BESIDE[Math.floor(choice / ALONG.length)] * width;
      const y = at.y;
      const box = { x1: x - width / 2, x2: x + width / 2, y1: y - HEIGHT / 2, y2: y + HEIGHT / 2 };
      if (!taken.isFree(box)) continue;
      taken.add(box);
      this.last.set(edge.id(), choice);
      edge.data({ dx: x - middle.x, dy: y - middle.y });
      edge.removeClass("crowded");
      return;
    }
    this.last.delete(edge.id());
    edge.data({ dx: 0, dy: 0 });
    edge.addClass("crowded");
  }

  private width(text: string, size: number, weight: string): number {
    this.context.font = `${weight} ${size}px ${this.font}`;
    return Math.max(...text.split("\n").map((t) => this.context.measureText(t).width));
  }
}

function titleBox(box: Box, width: number): Box {
  const middle = (box.x1 + box.x2) / 2;
  return { x1: middle - width / 2, x2: middle + width / 2, y1: box.y1 - TITLE_HEIGHT, y2: box.y1 };
}

/** A line as points: straight pieces as they are, curves in steps. */
export function pathOf(edge: cytoscape.EdgeSingular): Point[] {
  const start = edge.sourceEndpoint();
  const end = edge.targetEndpoint();
  const control = edge.controlPoints() ?? [];
  const points = [start];
  control.forEach((c, i) => {
    const from = points[points.length - 1];
    const next = control[i + 1];
    const to = next ? { x: (c.x + next.x) / 2, y: (c.y + next.y) / 2 } : end;
    for (const t of [0.25, 0.5, 0.75, 1]) {
      const s = 1 - t;
      points.push({ x: s * s * from.x + 2 * s * t * c.x + t * t * to.x, y: s * s * from.y + 2 * s * t * c.y + t * t * to.y });
    }
  });
  if (!control.length) points.push(end);
  return points;
}

function lengthOf(path: Point[]): number {
  return path.slice(1).reduce((sum, p, i) => sum + Math.hypot(p.x - path[i].x, p.y - path[i].y), 0);
}

function pointAt(path: Point[], share: number): Point {
  let left = share * lengthOf(path);
  for (let i = 1; i < path.length; i++) {
    const [a, b] = [path[i - 1], path[i]];
    const piece = Math.hypot(b.x - a.x, b.y - a.y);
    if (left <= piece && piece > 0) return { x: a.x + ((b.x - a.x) * left) / piece, y: a.y + ((b.y - a.y) * left) / piece };
    left -= piece;
  }
  return path[path.length - 1];
}
