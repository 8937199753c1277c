"""JavaScript checkers: one module, with BigInt arithmetic."""

from __future__ import annotations

import json

from ...expr.code import Syntax
from ..program import Templates
from .language import INFIX, Language, apart

JAVASCRIPT = Language(
    syntax=Syntax(
        number="{}n",
        divided={"//": "floordiv({}, {})", "%": "mod({}, {})"},
        called={"max": "max({})", "min": "min({})", "abs": "abs({})", "broadcast": "broadcast({})"},
        choice="({0} ? {1} : {2})",
        compared={**INFIX, "==": "{0} === {1}", "!=": "{0} !== {1}"},
        joined={"and": " && ", "or": " || "},
        truth={"true": "true", "false": "false"},
    ),
    templates=Templates(
        size="  const {name} = {value};",
        condition="  const {name} = {value};",
        test="  if (!({cond})) broken.push({text});",
        given="  outputs.set({name}, [{sizes}]);",
        one="sizeOf({}), ",
        got="{name}",
        place="given.get({name})[{axis}]",
        remark="  // {}",
        literal=json.dumps,
    ),
    identifier=apart,
    rank="    [{name}, {rank}],\n",
    other="    {name},\n",
    around="""\
// Checks the shapes of a model's inputs; written from the model's contract. A module without imports.

const floordiv = (n, d) => (d === 0n ? 0n : (n - mod(n, d)) / d);

function mod(n, d) {
  if (d === 0n) return n;
  const rest = n % d;
  return rest !== 0n && rest < 0n !== d < 0n ? rest + d : rest;
}

const max = (a, b) => (a > b ? a : b);
const min = (a, b) => (a < b ? a : b);
const abs = (a) => (a < 0n ? -a : a);
const broadcast = (...sizes) => sizes.find((size) => size !== 1n) ?? 1n;

function read(shapes) {
  const entries = shapes instanceof Map ? [...shapes] : Object.entries(shapes);
  return new Map(entries.map(([name, sizes]) => [name, Array.from(sizes, BigInt)]));
}

/**
 * The conditions that shapes of the inputs break; when there are none, the model runs.
 * @param {Object<string, (number|bigint)[]>|Map<string, (number|bigint)[]>} shapes sizes by name of the input
 * @returns {string[]}
 */
export function checkInputs(shapes) {
  const given = read(shapes);
  const ranks = new Map([
@RANKS@  ]);
  const others = new Set([
@OTHERS@  ]);
  const broken = [];
  for (const name of given.keys()) {
    if (!ranks.has(name) && !others.has(name)) broken.push(`${name} is no input that is checked`);
  }
  for (const [name, rank] of ranks) {
    const sizes = given.get(name);
    if (sizes === undefined) broken.push(`${name} is missing`);
    else if (sizes.length !== rank) broken.push(`${name} must have ${rank} axes (got ${sizes.length})`);
    else if (sizes.some((size) => size < 0n)) {
      broken.push(`${name} must not have a negative size (got ${sizes.find((size) => size < 0n)})`);
    }
  }
  if (broken.length) return broken;
@STEPS@
  return broken;
}
@OUTPUTS@""",
    outputs="""
function refuse(broken) {
  if (broken.length) throw new RangeError(broken.join("; "));
}

function sizeOf(size) {
  if (size > Number.MAX_SAFE_INTEGER) refuse([`a size of ${size} is no safe integer`]);
  return Number(size);
}

/**
 * Shapes of the outputs at shapes of the inputs; a RangeError where these break conditions.
 * @param {Object<string, (number|bigint)[]>|Map<string, (number|bigint)[]>} shapes sizes by name of the input
 * @returns {Map<string, number[]>}
 */
export function outputShapes(shapes) {
  refuse(checkInputs(shapes));
  const given = read(shapes);
  const broken = [];
  const outputs = new Map();
@STEPS@
  refuse(broken);
  return outputs;
}
""",
    suffix=".mjs",
)
