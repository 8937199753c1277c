"""Tree of name scopes by which the explorer folds a graph.

Exporters write scopes into node names (``/layers.0/attn/MatMul``). If they do not, scopes are derived from weight
names (``model.layers.0.attn.weight``): the nodes between two weights belong to the scope that both share. Constants
outside all scopes move to their readers' scope. A scope that is too long for one picture is cut into runs, repeated
scopes (``layers.0``, ``layers.1``, …) share a parent scope, and a scope with one node is removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile

from ..deploy.limits import SCOPED
from .limits import ALIKE, MAX_LOOSE

Path = tuple[str, ...]

#: min. sibling scopes with similar names that share a parent scope
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Scoped:
    """Data of a node for the scope tree: full label, operator, operands.

    ``hidden``: True for a constant, a node computed from constants, or arithmetic on sizes, which the picture hides
    at first; ``reads``: the numbers of the nodes whose results it reads.
    """

    label: str
    op_type: str
    weights: tuple[str, ...] = ()
    hidden: bool = False
    reads: tuple[int, ...] = ()


@dataclass(slots=True)
class Scopes:
    """Scope tree: ``rows`` are (parent, name), with -1 as the root's parent; ``of`` is the scope of each node."""

    rows: list[tuple[int, str]] = field(default_factory=list)
    of: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Branch:
    name: str
    members: list[int] = field(default_factory=list)
    children: dict[str, _Branch] = field(default_factory=dict)


def find_scopes(nodes: Sequence[Scoped]) -> Scopes:
    """Return the scope tree of nodes in graph order."""
    paths = [_path_of_label(n.label) for n in nodes]
    scoped = sum(len(p) > 0 for p in paths)
    if scoped < SCOPED * len(nodes):
        paths = [p or w for p, w in zip(paths, _paths_of_weights(nodes))]
    _move_constants(nodes, paths)
    root = _Branch("")
    for i, path in enumerate(paths):
        branch = root
        for part in path:
            branch = branch.children.setdefault(part, _Branch(part))
        branch.members.append(i)
    _dissolve_single(root, nodes)
    scopes = Scopes(of=[-1] * len(nodes))
    stack = [(root, -1)]
    while stack:
        branch, number = stack.pop()
        _place(branch, number, nodes, scopes)
        below = []
        for child in _grouped(branch.children):
            child = _merged(child)
            scopes.rows.append((number, child.name))
            below.append((child, len(scopes.rows) - 1))
        stack += reversed(below)
    return scopes


def _move_constants(nodes: Sequence[Scoped], paths: list[Path]) -> None:
    """Move constants without a scope into the scope that all their readers share."""
    shared: dict[int, Path] = {}
    for i in reversed(range(len(nodes))):
        if nodes[i].hidden and not paths[i]:
            paths[i] = shared.get(i, ())
        for source in nodes[i].reads:
            shared[source] = _shared(shared[source], paths[i]) if source in shared else paths[i]


def _dissolve_single(root: _Branch, nodes: Sequence[Scoped]) -> None:
    """Remove scopes that show a single node; their members move to the parent."""
    order = [root]
    for branch in order:
        order += branch.children.values()
    shown: dict[int, int] = {}
    for branch in reversed(order):
        for name, child in [*branch.children.items()]:
            if shown[id(child)] == 1:
                del branch.children[name]
                branch.members = sorted([*branch.members, *_members(child)])
        below = sum(shown[id(c)] for c in branch.children.values())
        shown[id(branch)] = below + sum(not nodes[i].hidden for i in branch.members)


def _members(branch: _Branch) -> list[int]:
    """Return the indices of the nodes in a scope and its descendants."""
    found = list(branch.members)
    for child in branch.children.values():
        found += _members(child)
    return found


def _grouped(children: dict[str, _Branch]) -> list[_Branch]:
    """Return sibling scopes, with groups of similar names combined under one name: ``layers.0-31``."""
    alike: dict[str, list[_Branch]] = {}
    for name, child in children.items():
        alike.setdefault(NUMBER.sub("#", name), []).append(child)
    if len(alike) == 1 or all(len(group) < ALIKE for group in alike.values()):
        return list(children.values())
    out: list[_Branch] = []
    for template, group in alike.items():
        if len(group) < ALIKE or "#" not in template:
            out += group
        else:
            out.append(_Branch(_span(template, group), [], {c.name: c for c in group}))
    return out


def _span(template: str, group: Sequence[_Branch]) -> str:
    numbers = [[int(n) for n in NUMBER.findall(c.name)] for c in group]
    if template.count("#") != 1:
        return template
    return template.replace("#", f"{min(numbers)[0]}–{max(numbers)[0]}")


def _merged(branch: _Branch) -> _Branch:
    """Return a scope merged with its only child: ``m/model``."""
    while not branch.members and len(branch.children) == 1:
        (child,) = branch.children.values()
        branch = _Branch(f"{branch.name}/{child.name}", child.members, child.children)
    return branch


def _place(branch: _Branch, number: int, nodes: Sequence[Scoped], scopes: Scopes) -> None:
    """Assign nodes to a scope, split into parts if there are too many for one picture."""
    members = branch.members
    if sum(not nodes[i].hidden for i in members) <= MAX_LOOSE:
        for i in members:
            scopes.of[i] = number
        return
    for run in _runs(members, nodes):
        scopes.rows.append((number, _run_name([nodes[i] for i in run])))
        for i in run:
            scopes.of[i] = len(scopes.rows) - 1


def _runs(members: list[int], nodes: Sequence[Scoped]) -> list[list[int]]:
    """Split nodes in graph order into parts of limited size."""
    runs: list[list[int]] = [[]]
    shown = 0
    for i in members:
        apart = bool(runs[-1]) and i - runs[-1][-1] > MAX_LOOSE // 2
        if runs[-1] and (shown >= MAX_LOOSE // 2 or (apart and shown >= 4)):
            runs.append([])
            shown = 0
        runs[-1].append(i)
        shown += not nodes[i].hidden
    return runs


def _run_name(run: list[Scoped]) -> str:
    ops = Counter(n.op_type for n in run if not n.hidden) or Counter(n.op_type for n in run)
    common = [op for op, _ in ops.most_common(2)]
    return f"{', '.join(common)}{' …' if len(ops) > 2 else ''}"


def _path_of_label(label: str) -> Path:
    return tuple(p for p in label.split("/")[:-1] if p)


def _paths_of_weights(nodes: Sequence[Scoped]) -> list[Path]:
    """Return scopes by weight names, for models without scopes in node names."""
    uses = Counter(w for n in nodes for w in n.weights)  # the readers of a shared weight may be anywhere
    own = [next((p for w in n.weights if uses[w] == 1 and (p := _path_of_weight(w))), None) for n in nodes]
    after: list[Path] = []
    following: Path = ()
    for path in reversed(own):
        following = path if path is not None else following
        after.append(following)
    after.reverse()
    before: Path = ()
    out: list[Path] = []
    for path, following in zip(own, after):
        if path is not None:
            before = path
        out.append(path if path is not None else _shared(before, following))
    return out


def _shared(a: Path, b: Path) -> Path:
    return tuple(x for x, _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b)))


def _path_of_weight(name: str) -> Path | None:
    """Return the scope path of a weight name: ``layers.0.attn.weight`` gives ``layers.0 / attn``."""
    parts: list[str] = []
    for word, numbers in groupby(name.split(".")[:-1], key=str.isdigit):
        text = list(numbers)
        if word and parts:
            parts[-1] = ".".join([parts[-1], *text])
        else:
            parts += text
    return tuple(parts) if len(parts) > 0 and all(parts) else None
