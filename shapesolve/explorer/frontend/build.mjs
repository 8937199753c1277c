// Bundles the explorer into ../static: one script, one style sheet, and the licence texts of what is in them.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { build } from "esbuild";

const target = "../static";
const BUNDLED = ["cytoscape", "cytoscape-dagre", "@dagrejs/dagre", "@dagrejs/graphlib"];

// tests compare this with the sources, so that a stale bundle is noticed without Node
const sources = [...readdirSync("src").sort().map((f) => `src/${f}`), "build.mjs", "package-lock.json"];
const hash = createHash("sha256");
for (const file of sources) hash.update(readFileSync(file));
const banner = `/* shapesolve explorer; sources ${hash.digest("hex")}; licences of bundled libraries: LICENSES.txt */`;

mkdirSync(target, { recursive: true });
const shared = { minify: true, legalComments: "none", charset: "ascii", logLevel: "warning" };
await build({
  ...shared, entryPoints: ["src/main.ts"], bundle: true, format: "iife", globalName: "ShapesolveExplorer",
  target: "es2022", outfile: `${target}/explorer.js`, banner: { js: banner },
});
await build({ ...shared, entryPoints: ["src/style.css"], outfile: `${target}/explorer.css`, banner: { css: banner } });

const texts = BUNDLED.map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync(`${target}/LICENSES.txt`, `explorer.js contains the libraries below.\n\n${texts.join("\n----\n\n")}`);
