// The picture as a drawing: boxes, lines and texts as they stand on the canvas.

import type cytoscape from "cytoscape";
import { pathOf } from "./labels";

const MARGIN = 12;

export function drawing(cy: cytoscape.Core, font: string): string {
  const { x1, y1, w, h } = cy.elements().boundingBox();
  const size = `width="${number(w + 2 * MARGIN)}" height="${number(h + 2 * MARGIN)}"`;
  const nodes = cy.nodes().toArray() as cytoscape.NodeSingular[];
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="${[x1 - MARGIN, y1 - MARGIN, w + 2 * MARGIN, h + 2 * MARGIN].map(number).join(" ")}" font-family="${escaped(font)}">`,
    ...nodes.filter((n) => n.isParent()).map(box),
    ...cy.edges().toArray().map((e) => line(e as cytoscape.EdgeSingular)),
    ...nodes.filter((n) => !n.isParent()).map(box),
    ...cy.edges().toArray().map((e) => lineText(e as cytoscape.EdgeSingular)),
    "</svg>",
  ];
  return parts.join("\n");
}

function box(node: cytoscape.NodeSingular): string {
  const { x1, y1, w, h } = node.boundingBox({ includeLabels: false, includeOverlays: false });
  const open = node.isParent();
  const lines = String(node.data("label")).split("\n");
  const size = node.numericStyle("font-size");
  const top = open ? y1 - 4 - size / 2 : y1 + h / 2 - ((lines.length - 1) * size) / 2;
  const texts = lines.map((text, i) => `<text x="${number(x1 + w / 2)}" y="${number(top + i * size)}" text-anchor="middle" dominant-baseline="central" font-size="${size}" font-weight="${node.style("font-weight")}" fill="${node.style("color")}">${escaped(text)}</text>`);
  return `<rect x="${number(x1)}" y="${number(y1)}" width="${number(w)}" height="${number(h)}" rx="6" fill="${node.style("background-color")}" fill-opacity="${node.style("background-opacity")}" stroke="${node.style("border-color")}" stroke-width="${node.numericStyle("border-width")}"/>${texts.join("")}`;
}

function line(edge: cytoscape.EdgeSingular): string {
  const points = pathOf(edge);
  const colour = edge.style("line-color");
  const drawn = `<polyline points="${points.map((p) => `${number(p.x)},${number(p.y)}`).join(" ")}" fill="none" stroke="${colour}" stroke-width="${edge.numericStyle("width")}" stroke-opacity="${edge.style("line-opacity")}"/>`;
  if (edge.hasClass("far")) return drawn;
  const [before, end] = [points[points.length - 2], points[points.length - 1]];
  const turn = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  return `${drawn}<path d="M0 0L-7 3.2L-7 -3.2Z" fill="${colour}" transform="translate(${number(end.x)} ${number(end.y)}) rotate(${number(turn)})"/>`;
}

function lineText(edge: cytoscape.EdgeSingular): string {
  const text = String(edge.data("label"));
  if (!text || edge.hasClass("crowded") || edge.hasClass("far")) return "";
  const { x, y } = edge.midpoint();
  return `<text x="${number(x + edge.data("dx"))}" y="${number(y + edge.data("dy"))}" text-anchor="middle" dominant-baseline="central" font-size="${edge.numericStyle("font-size")}" fill="${edge.style("color")}">${escaped(text)}</text>`;
}

function number(value: number): string { return value.toFixed(1); }

/** Text in XML; characters that XML does not have are left out. */
function escaped(text: string): string {
  const marks: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "").replace(/[&<>"]/g, (c) => marks[c]);
}
