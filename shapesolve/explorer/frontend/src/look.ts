// Cytoscape's style sheet, in the colours of the page (CSS variables of style.css).

import type cytoscape from "cytoscape";
import { LINE_FONT } from "./labels";

export function fontOf(host: HTMLElement): string {
  return getComputedStyle(host).fontFamily || "sans-serif";
}

export function styleOf(host: HTMLElement): cytoscape.StylesheetJson {
  const css = getComputedStyle(host);
  const c = (name: string): string => css.getPropertyValue(`--${name}`).trim() || "#888";
  const font = fontOf(host);
  const filled = (name: string): object => ({ "background-color": c(`${name}-bg`), "border-color": c(`${name}-line`) });
  return [
    { selector: "node", style: {
      shape: "round-rectangle", width: "data(width)", height: "data(height)", label: "data(label)",
      "text-valign": "center", "text-halign": "center", "text-wrap": "wrap", "font-family": font, "font-size": 12,
      color: c("text"), "border-width": 1, "min-zoomed-font-size": 5, "text-max-width": "1000px",
      ...filled("plain"),
    } },
    { selector: "node.heavy", style: filled("heavy") },
    { selector: "node.shape", style: filled("shape") },
    { selector: "node.norm", style: filled("norm") },
    { selector: "node.flow", style: filled("flow") },
    { selector: "node.input, node.output", style: { ...filled("end"), "font-weight": "bold" } },
    { selector: "node.scope", style: { ...filled("scope"), "border-width": 2, "font-weight": "bold" } },
    { selector: "node:parent", style: {
      "background-color": c("open-bg"), "background-opacity": 0.5, "border-color": c("open-line"), "border-width": 1,
      "text-valign": "top", "text-halign": "center", "text-margin-y": -4, color: c("muted"), "font-weight": "bold",
      padding: "16px",
    } },
    { selector: "edge", style: {
      width: 1.2, "line-color": c("edge"), "target-arrow-color": c("edge"), "target-arrow-shape": "triangle",
      "arrow-scale": 0.8, "curve-style": "bezier", label: "data(label)", "font-family": font, "font-size": LINE_FONT,
      color: c("shape-text"), "text-background-color": c("canvas"), "text-background-opacity": 0.85,
      "text-background-padding": "2px", "min-zoomed-font-size": 7, "text-margin-x": "data(dx)", "text-margin-y": "data(dy)",
    } },
    { selector: "edge.crowded", style: { label: "" } },
    { selector: "edge.routed", style: {
      "curve-style": "unbundled-bezier", "edge-distances": "node-position",
      "control-point-weights": (edge: cytoscape.EdgeSingular) => edge.scratch("controlPointWeights"),
      "control-point-distances": (edge: cytoscape.EdgeSingular) => edge.scratch("controlPointDistances"),
    } as object },
    { selector: "edge.far", style: { "line-opacity": 0.18, "target-arrow-shape": "none", label: "", "curve-style": "straight" } },
    { selector: "edge.near, edge.selected", style: {
      width: 2.4, "line-color": c("accent"), "target-arrow-color": c("accent"), "line-opacity": 1, label: "data(label)", "z-index": 9,
    } },
    { selector: "node.warning", style: { "border-color": c("warning"), "border-width": 3 } },
    { selector: "node.error", style: { "border-color": c("error"), "border-width": 3 } },
    { selector: "node.broken", style: { "border-color": c("error"), "border-width": 4, "background-color": c("error-bg") } },
    { selector: "node.selected", style: { "outline-color": c("accent"), "outline-width": 3, "outline-offset": 2 } as object },
  ] as cytoscape.StylesheetJson;
}
