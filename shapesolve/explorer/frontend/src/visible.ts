// Which boxes and lines are in the picture: scopes are closed boxes until somebody opens them.

import { isEnd, NodeKind, type Tables } from "./data";

/** A node is "n" and its number, a scope "s" and its number. */
export type BoxId = string;

export interface Box {
  id: BoxId;
  parent: BoxId | null;
  open: boolean;
}

export interface Line {
  id: string;
  source: BoxId;
  target: BoxId;
  tensors: number[];
  far: boolean; // of a box with many readers: drawn faintly and not part of the layout
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
}

const MANY = 8;
/** First picture: no more boxes than this, and no more layouts than this are tried. */
const MOST = 70;
const TRIES = 12;
/** A scope with this share of all nodes in few scopes says too little while it is closed. */
const NEARLY_ALL = 0.6;
const FEW = 8;

export class View {
  readonly open = new Set<number>();
  folded = false; // are constants and what is computed from them shown?
  shapes = false; // is arithmetic on sizes shown?
  private top: number[] = [];

  constructor(private readonly tables: Tables) {
    this.refresh();
  }

  /**
   * Open scopes, the largest first, while the picture that comes out is accepted. A scope that only wraps the others, or nearly
   * all of them, is opened in any case.
   */
  openFirst(accepted: () => boolean): void {
    const { children, data, shown } = this.tables;
    const queue = data.scopes.flatMap(([parent], s) => (parent < 0 ? [s] : []));
    const all = data.nodes.filter((n) => !isEnd(n[5]) && !this.isHidden(n[5])).length;
    let tries = TRIES;
    while (queue.length && tries > 0) {
      queue.sort((a, b) => shown[b] - shown[a]);
      const scope = queue.shift()!;
      if (!shown[scope] || this.isEnds(scope)) continue;
      const wraps = this.count(false) <= 2 || (shown[scope] > NEARLY_ALL * all && children[scope].length <= FEW);
      this.open.add(scope);
      this.refresh();
      if (!wraps) {
        tries--;
        if (this.count() > MOST || !accepted()) {
          this.open.delete(scope);
          this.refresh();
          continue;
        }
      }
      queue.push(...children[scope]);
    }
  }

  private isHidden(kind: number): boolean {
    return (kind === NodeKind.Folded && !this.folded) || (kind === NodeKind.Shapes && !this.shapes);
  }

  /** Is it a group of graph inputs or outputs? */
  isEnds(scope: number): boolean {
    const first = this.tables.members[scope][0];
    return first !== undefined && isEnd(this.tables.data.nodes[first][5]);
  }

  toggle(scope: number): void {
    if (this.open.has(scope)) this.open.delete(scope); else this.open.add(scope);
    this.refresh();
  }

  closeAll(): void {
    this.open.clear();
    this.refresh();
  }

  openAll(): void {
    this.tables.data.scopes.forEach((_, s) => this.open.add(s));
    this.refresh();
  }

  /** Make a node visible. With `alone`, scopes that do not lead to it are closed. */
  reveal(node: number, alone: boolean): void {
    if (alone) this.open.clear();
    if (this.tables.data.nodes[node][5] === NodeKind.Folded) this.folded = true;
    if (this.tables.data.nodes[node][5] === NodeKind.Shapes) this.shapes = true;
    for (let s = this.tables.data.nodes[node][2]; s >= 0; s = this.tables.data.scopes[s][0]) this.open.add(s);
    this.refresh();
  }

  /** The box that stands for a node. */
  boxOf(node: number): BoxId {
    const scope = this.tables.data.nodes[node][2];
    const closed = scope < 0 ? -1 : this.top[scope];
    return closed < 0 ? `n${node}` : `s${closed}`;
  }

  /** Number of boxes in the picture, with those of inputs and outputs or without. */
  count(ends = true): number {
    const boxes = new Set<BoxId>();
    this.tables.data.nodes.forEach((n, i) => {
      if (!this.isHidden(n[5]) && (ends || !isEnd(n[5]))) boxes.add(this.boxOf(i));
    });
    return boxes.size;
  }

  /** Open exactly these scopes. */
  setOpen(scopes: Iterable<number>): void {
    this.open.clear();
    for (const scope of scopes) this.open.add(scope);
    this.refresh();
  }

  picture(): Picture {
    const { nodes, scopes } = this.tables.data;
    const boxes = new Map<BoxId, Box>();
    const parentOf = (scope: number): BoxId | null => {
      if (scope < 0) return null;
      const id = `s${scope}`;
      if (!boxes.has(id)) boxes.set(id, { id, parent: parentOf(scopes[scope][0]), open: true });
      return id;
    };
    const hidden = nodes.map((n) => this.isHidden(n[5]));
    const box = nodes.map((_, i) => this.boxOf(i));
    nodes.forEach((n, i) => {
      if (hidden[i] || boxes.has(box[i])) return;
      const scope = n[2];
      const closed = scope < 0 ? -1 : this.top[scope];
      const parent = parentOf(closed < 0 ? scope : scopes[closed][0]);
      boxes.set(box[i], { id: box[i], parent, open: false });
    });
    const lines = new Map<string, { source: BoxId; target: BoxId; tensors: Set<number> }>();
    nodes.forEach((n, i) => {
      if (hidden[i]) return;
      for (const t of [...n[3], ...(n[6] ?? [])]) {
        const from = t < 0 ? -1 : this.tables.producer(t);
        if (from < 0 || hidden[from] || box[from] === box[i]) continue;
        const id = `${box[from]}>${box[i]}`;
        const line = lines.get(id);
        if (line) line.tensors.add(t);
        else lines.set(id, { source: box[from], target: box[i], tensors: new Set([t]) });
      }
    });
    const far = farLines([...lines.values()]);
    return {
      boxes: [...boxes.values()],
      lines: [...lines].map(([id, line]) => ({
        id, source: line.source, target: line.target, tensors: [...line.tensors], far: far.has(line),
      })),
    };
  }

  /** For each scope the outermost closed scope that hides it, or -1. Parents come before children in the table. */
  private refresh(): void {
    this.top = [];
    this.tables.data.scopes.forEach(([parent], s) => {
      const above = parent < 0 ? -1 : this.top[parent];
      this.top.push(above >= 0 ? above : this.open.has(s) ? -1 : s);
    });
  }
}

/**
 * The lines of boxes with many others, but for one: the layout keeps such a box near its first reader or last writer.
 * A line that is all that holds its other end is kept too.
 */
function farLines<L extends { source: BoxId; target: BoxId }>(lines: L[]): Set<L> {
  const far = new Set<L>();
  const bySource = grouped(lines, "source");
  const byTarget = grouped(lines, "target");
  for (const group of bySource.values()) {
    if (group.length > MANY) for (const l of group.slice(1)) if (byTarget.get(l.target)!.length > 1) far.add(l);
  }
  for (const group of byTarget.values()) {
    if (group.length > MANY) for (const l of group.slice(0, -1)) if (bySource.get(l.source)!.length > 1) far.add(l);
  }
  return far;
}

function grouped<L extends { source: BoxId; target: BoxId }>(lines: L[], end: "source" | "target"): Map<BoxId, L[]> {
  const groups = new Map<BoxId, L[]>();
  for (const line of lines) {
    const group = groups.get(line[end]);
    if (group) group.push(line); else groups.set(line[end], [line]);
  }
  return groups;
}
