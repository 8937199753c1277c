// The whole picture in a corner, with the part that is in the window: shown while that is not everything.

import type cytoscape from "cytoscape";
import { h } from "./dom";

const WIDTH = 170;
const HEIGHT = 130;
const NARROWEST = 40;
const PAD = 4;

interface Rect { x: number; y: number; w: number; h: number; open: boolean }

export class Minimap {
  private readonly canvas = h("canvas", { class: "minimap", "aria-hidden": "true" });
  private rects: Rect[] = [];
  private bounds = { x1: 0, y1: 0, x2: 1, y2: 1 };
  private waiting = false;

  constructor(private readonly cy: cytoscape.Core, private readonly host: HTMLElement) {
    host.parentElement?.append(this.canvas);
    const move = (event: PointerEvent): void => {
      if (event.buttons & 1) this.centre(event.offsetX, event.offsetY);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener("pointermove", move);
    cy.on("viewport", () => this.later());
  }

  /** After boxes have moved, or colours have changed. */
  redraw(): void {
    this.rects = this.cy.nodes().map((node) => {
      const box = node.boundingBox({ includeLabels: false, includeOverlays: false });
      return { x: box.x1, y: box.y1, w: box.w, h: box.h, open: node.isParent() };
    });
    this.rects.sort((a, b) => Number(b.open) - Number(a.open) || b.w * b.h - a.w * a.h);
    this.bounds = this.cy.nodes().boundingBox();
    const scale = this.scale();
    const width = Math.max(NARROWEST, (this.bounds.x2 - this.bounds.x1) * scale + 2 * PAD);
    const height = (this.bounds.y2 - this.bounds.y1) * scale + 2 * PAD;
    [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${height}px`];
    [this.canvas.width, this.canvas.height] = [2 * width, 2 * height];
    this.later();
  }

  destroy(): void { this.canvas.remove(); }

  private later(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (!this.cy.destroyed()) this.paint();
    });
  }

  private scale(): number {
    const { x1, y1, x2, y2 } = this.bounds;
    const most = Math.min(1, this.cy.width() / 500);
    return Math.min((most * WIDTH - 2 * PAD) / Math.max(x2 - x1, 1), (most * HEIGHT - 2 * PAD) / Math.max(y2 - y1, 1));
  }

  private paint(): void {
    const { x1, y1, x2, y2 } = this.bounds;
    const seen = this.cy.extent();
    this.canvas.hidden = !this.rects.length || (seen.x1 <= x1 && seen.y1 <= y1 && seen.x2 >= x2 && seen.y2 >= y2);
    if (this.canvas.hidden) return;
    const css = getComputedStyle(this.host);
    const colour = (name: string): string => css.getPropertyValue(`--${name}`).trim();
    const scale = this.scale();
    const context = this.canvas.getContext("2d")!;
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.translate(PAD - x1 * scale, PAD - y1 * scale);
    for (const r of this.rects) {
      context.fillStyle = colour(r.open ? "open-bg" : "scope-line");
      context.fillRect(r.x * scale, r.y * scale, Math.max(r.w * scale, 1), Math.max(r.h * scale, 1));
    }
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(seen.x1 * scale, seen.y1 * scale, seen.w * scale, seen.h * scale);
  }

  private centre(x: number, y: number): void {
    const scale = this.scale();
    const zoom = this.cy.zoom();
    const at = { x: (x - PAD) / scale + this.bounds.x1, y: (y - PAD) / scale + this.bounds.y1 };
    this.cy.pan({ x: this.cy.width() / 2 - at.x * zoom, y: this.cy.height() / 2 - at.y * zoom });
  }
}
