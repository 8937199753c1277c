// The picture of the graph: Cytoscape draws, dagre places; this file only says what is there and what it looks like.

import cytoscape from "cytoscape";
import dagre from "cytoscape-dagre";
import { isEnd, NodeKind } from "./data";
import { clipped, counted } from "./dom";
import type { State } from "./state";
import { type Line, View } from "./visible";
import { Labels } from "./labels";
import { fontOf, styleOf } from "./look";
import { Minimap } from "./minimap";
import { drawing } from "./svg";

cytoscape.use(dagre);

type Route = { controlPointWeights?: number[] };

const READABLE = 0.78; // zoom from which on labels can be read
const MARGIN = 12;
const LARGEST_IMAGE = 8000;
const ALONE_ABOVE = 220; // boxes; a jump closes other scopes in a picture of more
const MAX_OPEN_ALL = 400;
const NEAT_BELOW = 160; // boxes; a picture of more is laid out by the faster way

export class Graph {
  readonly view: View;
  private readonly cy: cytoscape.Core;
  private lines = new Map<string, Line>();
  private labels: Labels | null = null; // where the texts of lines stand
  private readonly map: Minimap;
  private readonly drawListeners: (() => void)[] = [];

  constructor(private readonly state: State, private readonly host: HTMLElement) {
    this.view = new View(state.tables);
    this.cy = cytoscape({
      container: host,
      style: styleOf(host),
      minZoom: 0.02,
      maxZoom: 3,
      boxSelectionEnabled: false,
      autounselectify: true,
      textureOnViewport: true,
    });
    this.cy.on("tap", (event) => event.target === this.cy && state.select(null));
    this.cy.on("tap", "node", (event) => this.pick(event.target.id()));
    this.cy.on("dbltap", "node", (event) => this.toggle(event.target.id()));
    this.cy.on("tap", "edge", (event) => state.select({ kind: "line", tensors: this.lines.get(event.target.id())!.tensors }));
    this.map = new Minimap(this.cy, host);
    host.addEventListener("keydown", (event) => this.key(event));
    state.onSizes(() => this.relabel());
    state.onSelect((jump) => this.showSelection(jump));
    this.view.openFirst(() => this.fits());
    this.redraw();
  }

  // ---------------------------------------------------------------- what is there

  /** Is what is open now readable as a whole, in this window? */
  private fits(): boolean {
    this.place();
    const { w, h } = this.cy.nodes().boundingBox();
    return w * READABLE <= this.cy.width() - 2 * MARGIN && h * READABLE <= this.cy.height() - 2 * MARGIN - this.below();
  }

  /** Height of what lies over the top of the picture. */
  private below(): number {
    return this.host.parentElement?.querySelector<HTMLElement>(".toolbar")?.offsetHeight ?? 0;
  }

  private draw(): void {
    this.place();
    this.cy.batch(() => this.cy.edges().forEach((edge) => {
      if (((edge.scratch() as Route).controlPointWeights?.length ?? 0) > 1) edge.addClass("routed");
    }));
    this.labels = new Labels(this.cy.edges(), this.cy.nodes(), fontOf(this.host));
    this.relabel();
    this.map.redraw();
    for (const listener of this.drawListeners) listener();
  }

  onDraw(listener: () => void): void { this.drawListeners.push(listener); }

  /** Boxes and lines, where they belong. */
  private place(): void {
    const { tables } = this.state;
    const picture = this.view.picture();
    this.lines = new Map(picture.lines.map((l) => [l.id, l]));
    this.labels = null;
    this.cy.startBatch();
    this.cy.elements().remove();
    this.cy.add(picture.boxes.map((box) => {
      const scope = box.id[0] === "s";
      const number = Number(box.id.slice(1));
      const [label, kind] = scope ? this.scopeLabel(number, box.open) : [this.nodeLabel(number), kindOf(tables.op(number), tables.data.nodes[number][5])];
      const width = Math.max(56, Math.max(...label.split("\n").map((t) => t.length)) * 7 + 22);
      return {
        group: "nodes" as const,
        data: { id: box.id, parent: box.parent ?? undefined, label, width, height: label.includes("\n") ? 42 : 28 },
        classes: box.open ? "open" : scope ? "scope" : kind,
        grabbable: false, // the layout is dagre's: a drag anywhere moves the picture
        pannable: true,
      };
    }));
    this.cy.add(picture.lines.map((line) => ({
      group: "edges" as const,
      data: { id: line.id, source: line.source, target: line.target, label: "", dx: 0, dy: 0 },
      classes: line.far ? "far" : "",
    })));
    this.cy.endBatch();
    this.cy.elements().not(".far").layout({
      name: "dagre", rankDir: "TB", nodeSep: 34, edgeSep: 16, rankSep: 46, ranker: picture.boxes.length <= NEAT_BELOW ? "network-simplex" : "tight-tree", animate: false, fit: false,
      useDagreEdgeControlPoints: true, automaticDagreEdgeStyle: false,
    } as cytoscape.LayoutOptions).run();
  }

  private scopeLabel(scope: number, open: boolean): [string, string] {
    const [, name] = this.state.data.scopes[scope];
    if (open) return [name, "open"];
    const size = this.view.folded ? this.state.tables.size[scope] : this.state.tables.shown[scope];
    return [`${clipped(name, 34)}\n${counted(size, this.view.isEnds(scope) ? "tensor" : "node")}`, "scope"];
  }

  private nodeLabel(node: number): string {
    const kind = this.state.data.nodes[node][5];
    if (isEnd(kind)) return clipped(this.state.tables.label(node), 34);
    const place = this.placeName(node);
    return place ? `${this.state.tables.op(node)}\n${clipped(place, 26)}` : this.state.tables.op(node);
  }

  /** The scope that a node's name says it is in, where the picture has no box for it: `q_proj`. */
  private placeName(node: number): string {
    const name = this.state.tables.label(node).split("/").at(-2) ?? "";
    const scopes = this.state.tables.scopePath(this.state.data.nodes[node][2]).split(/ \/ |\//);
    return scopes.includes(name) ? "" : name;
  }

  /** Texts that depend on the bound sizes. */
  private relabel(): void {
    this.cy.batch(() => {
      this.cy.edges().forEach((edge) => { edge.data("label", this.lineLabel(this.lines.get(edge.id())!)); });
      this.labels?.place();
    });
    this.mark();
  }

  private lineLabel(line: Line): string {
    const texts = new Set<string>();
    for (const t of line.tensors) {
      texts.add(this.state.shape(t, 26));
      if (texts.size > 2) break;
    }
    const [first] = texts;
    const more = line.tensors.length - 1;
    const shown = clipped(first, 64);
    return texts.size === 1 ? (more ? `${shown} ×${more + 1}` : shown) : `${shown} +${more}`;
  }

  /** Colours of what is broken, at fault or selected. */
  private mark(): void {
    const broken = new Set([...this.state.broken].map((n) => this.view.boxOf(n)));
    const faulty = new Map<string, string>();
    for (const [n, severity] of this.state.faulty) {
      const box = this.view.boxOf(n);
      if (faulty.get(box) !== "error") faulty.set(box, severity);
    }
    const selected = this.selectedBoxes();
    this.cy.batch(() => {
      this.cy.nodes().forEach((node) => {
        const id = node.id();
        node.toggleClass("broken", broken.has(id));
        node.toggleClass("error", faulty.get(id) === "error");
        node.toggleClass("warning", faulty.get(id) === "warning");
        node.toggleClass("selected", selected.has(id));
      });
      const tensors = this.selectedTensors();
      this.cy.edges().forEach((edge) => {
        const line = this.lines.get(edge.id())!;
        const near = selected.has(line.source) || selected.has(line.target);
        edge.toggleClass("near", near && !tensors.size);
        edge.toggleClass("selected", tensors.size > 0 && line.tensors.some((t) => tensors.has(t)));
      });
    });
  }

  private selectedBoxes(): Set<string> {
    const s = this.state.selection;
    if (s?.kind === "node") return new Set([this.view.boxOf(s.node)]);
    if (s?.kind === "scope") return new Set([`s${s.scope}`]);
    return new Set();
  }

  private selectedTensors(): Set<number> {
    const s = this.state.selection;
    if (s?.kind === "symbol") return new Set(this.state.tables.tensorsOf(s.symbol));
    return new Set(s?.kind === "tensor" ? [s.tensor] : s?.kind === "line" ? s.tensors : []);
  }

  // ---------------------------------------------------------------- moving about

  private pick(id: string): void {
    const number = Number(id.slice(1));
    this.state.select(id[0] === "s" ? { kind: "scope", scope: number } : { kind: "node", node: number });
  }

  private showSelection(jump: boolean): void {
    const s = this.state.selection;
    if (jump && s) {
      if (s.kind === "node") this.reveal(s.node);
      else if (s.kind === "tensor") this.revealTensor(s.tensor);
      else if (s.kind === "scope") this.revealScope(s.scope);
    }
    this.mark();
  }

  private revealTensor(tensor: number): void {
    const { tables } = this.state;
    const node = tables.producer(tensor) >= 0 ? tables.producer(tensor) : tables.readers[tensor][0];
    if (node !== undefined) this.reveal(node);
  }

  private reveal(node: number): void {
    if (this.view.boxOf(node) !== `n${node}` || this.cy.$id(`n${node}`).empty()) {
      this.view.reveal(node, this.view.count() > ALONE_ABOVE);
      this.draw();
    }
    this.center(`n${node}`);
  }

  private revealScope(scope: number): void {
    if (this.cy.$id(`s${scope}`).empty()) {
      const inside = this.state.data.nodes.findIndex((n) => this.isInside(n[2], scope));
      if (inside < 0) return;
      this.view.reveal(inside, this.view.count() > ALONE_ABOVE);
      this.draw();
    }
    this.center(`s${scope}`);
  }

  private isInside(scope: number, outer: number): boolean {
    for (let s = scope; s >= 0; s = this.state.data.scopes[s][0]) if (s === outer) return true;
    return false;
  }

  private center(id: string): void {
    const box = this.cy.$id(id);
    if (box.empty()) return;
    const zoom = Math.min(Math.max(this.cy.zoom(), 0.8), 1.4);
    this.cy.stop().animate({ center: { eles: box }, zoom, duration: reducedMotion() ? 0 : 220 });
  }

  toggle(id: string): void {
    if (id[0] !== "s") return;
    const scope = Number(id.slice(1));
    const before = this.cy.$id(id).renderedPosition();
    this.view.toggle(scope);
    this.draw();
    const after = this.cy.$id(id);
    if (after.empty()) return;
    const box = after.renderedBoundingBox();
    if (box.w > this.cy.width() || box.h > this.cy.height()) this.cy.fit(after, 30);
    else this.cy.panBy({ x: before.x - after.renderedPosition().x, y: before.y - after.renderedPosition().y });
  }

  toggleScope(scope: number): void { this.toggle(`s${scope}`); }

  isOpen(scope: number): boolean { return this.view.open.has(scope); }

  fit(): void {
    this.cy.fit(undefined, 24);
    if (this.cy.zoom() > 1.2) {
      this.cy.zoom(1.2);
      this.cy.center();
    }
  }

  /** Everything when that can be read, else where the data comes in. */
  private start(): void {
    this.fit();
    if (this.cy.zoom() >= READABLE) {
      this.cy.panBy({ x: 0, y: Math.max(0, this.below() + 14 - this.cy.elements().renderedBoundingBox().y1) });
      return;
    }
    const entry = this.cy.nodes(".input").union(this.cy.nodes(":orphan").not(":parent")).union(this.cy.nodes().not(":parent"));
    const first = entry.sort((a, b) => (a as cytoscape.NodeSingular).position("y") - (b as cytoscape.NodeSingular).position("y"))[0];
    this.cy.zoom(READABLE);
    this.cy.center(first);
    this.cy.panBy({ x: this.outside(), y: this.below() + 14 - this.cy.elements().renderedBoundingBox().y1 });
  }

  /** How far to move sideways so that no empty margin shows while there is more to see on the other side. */
  private outside(): number {
    const margin = 24;
    const all = this.cy.elements().renderedBoundingBox();
    const [left, right] = [all.x1 - margin, this.cy.width() - margin - all.x2];
    if (left > 0 && right < 0) return -Math.min(left, -right);
    return right > 0 && left < 0 ? Math.min(right, -left) : 0;
  }

  zoomBy(factor: number): void {
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
  }

  closeAll(): void {
    this.view.closeAll();
    this.redraw();
  }

  get canOpenAll(): boolean { return this.state.data.nodes.length <= MAX_OPEN_ALL; }

  openAll(): void {
    this.view.openAll();
    this.redraw();
  }

  setShown(what: "folded" | "shapes", shown: boolean): void {
    this.view[what] = shown;
    this.redraw();
  }

  /** Open exactly these scopes. */
  setOpen(scopes: number[]): void {
    this.view.setOpen(scopes);
    this.redraw();
  }

  /** The whole picture: as a drawing, or as an image. */
  svg(): Blob { return new Blob([drawing(this.cy, fontOf(this.host))], { type: "image/svg+xml" }); }

  png(): Blob {
    const bg = getComputedStyle(this.host).backgroundColor;
    return this.cy.png({ output: "blob", full: true, scale: 2, maxWidth: LARGEST_IMAGE, maxHeight: LARGEST_IMAGE, bg });
  }

  private redraw(): void {
    this.draw();
    this.start();
  }

  /** After a change of theme or size. */
  restyle(): void {
    this.cy.style(styleOf(this.host));
    this.cy.resize();
    this.map.redraw();
  }

  destroy(): void {
    this.map.destroy();
    this.cy.destroy();
  }

  // ---------------------------------------------------------------- keyboard

  private key(event: KeyboardEvent): void {
    const act = this.action(event.key);
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  private action(key: string): (() => void) | null {
    const step = 80;
    const [selected] = this.selectedBoxes();
    switch (key) {
      case "+": case "=": return () => this.zoomBy(1.25);
      case "-": return () => this.zoomBy(0.8);
      case "0": return () => this.fit();
      case "Enter": case " ": return selected ? () => this.toggle(selected) : () => this.walk("ArrowDown");
      case "ArrowDown": case "ArrowUp": case "ArrowLeft": case "ArrowRight": return () => this.walk(key);
      case "a": return () => this.cy.panBy({ x: step, y: 0 });
      case "d": return () => this.cy.panBy({ x: -step, y: 0 });
      case "w": return () => this.cy.panBy({ x: 0, y: step });
      case "s": return () => this.cy.panBy({ x: 0, y: -step });
      case "Escape": return () => this.state.select(null);
      default: return null;
    }
  }

  /** Select the next box: along the data flow up and down, the nearest beside it left and right. */
  private walk(key: string): void {
    const [selected] = this.selectedBoxes();
    const here = selected ? this.cy.$id(selected) : this.cy.collection();
    const next = here.empty() ? this.first() : key === "ArrowDown" ? here.outgoers("node") : key === "ArrowUp" ? here.incomers("node") : this.beside(here, key);
    const target = next.nonempty() ? next.sort((a, b) => (a as cytoscape.NodeSingular).position("x") - (b as cytoscape.NodeSingular).position("x"))[0] : null;
    if (!target) return;
    this.pick(target.id());
    this.center(target.id());
  }

  private first(): cytoscape.NodeCollection {
    return this.cy.nodes().not(".open").sort((a, b) => (a as cytoscape.NodeSingular).position("y") - (b as cytoscape.NodeSingular).position("y")).slice(0, 1) as cytoscape.NodeCollection;
  }

  private beside(here: cytoscape.CollectionReturnValue, key: string): cytoscape.NodeCollection {
    const { x, y } = (here[0] as cytoscape.NodeSingular).position();
    const way = key === "ArrowLeft" ? -1 : 1;
    let best: cytoscape.NodeSingular | null = null;
    let least = Infinity;
    this.cy.nodes().not(".open").forEach((node) => {
      const p = node.position();
      const cost = Math.abs(p.x - x) + 4 * Math.abs(p.y - y);
      if ((p.x - x) * way > 1 && cost < least) [best, least] = [node, cost];
    });
    return best ? this.cy.$id((best as cytoscape.NodeSingular).id()) : this.cy.collection();
  }
}

const KINDS: Record<string, string> = {};
const addKinds = (kind: string, ops: string): void => ops.split(" ").forEach((op) => (KINDS[op] = kind));
addKinds("heavy", "MatMul Gemm Conv ConvTranspose Einsum Attention LSTM GRU RNN MatMulNBits QLinearConv QLinearMatMul MatMulInteger ConvInteger MultiHeadAttention GroupQueryAttention FusedMatMul");
addKinds("shape", "Reshape Transpose Unsqueeze Squeeze Concat Split Slice Gather GatherND Expand Shape Flatten Tile Pad Resize Identity DepthToSpace SpaceToDepth ConstantOfShape Range Size Cast");
addKinds("norm", "LayerNormalization BatchNormalization InstanceNormalization GroupNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization Softmax LogSoftmax MaxPool AveragePool GlobalAveragePool ReduceMean ReduceSum ReduceMax ReduceMin ReduceL2 TopK ArgMax");
addKinds("flow", "If Loop Scan NonMaxSuppression NonZero");

function kindOf(op: string, kind: number): string {
  if (kind === NodeKind.Input) return "input";
  if (kind === NodeKind.Output) return "output";
  return KINDS[op] ?? "plain";
}

function reducedMotion(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
