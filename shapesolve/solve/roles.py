"""`Roles`: how a model uses its sizes, for ranking accepted sizes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from ..expr import Cond, Dim, Shape, symbol
from ..expr.traverse import atoms_of
from .cone_of_influence import by_symbol

#: what a name may stand for, with the sizes that people use of it, the most usual one first
TYPICAL: Mapping[str, tuple[int, ...]] = {
    "batch": (1,),
    "image": (224, 640, 256, 512, 320, 384, 128, 64, 32),
    "audio": (16_000,),
    "frames": (16, 8, 32),
    "length": (8, 16, 32, 64, 128, 512, 1024, 4096),
}
_NAMED = {"audio": re.compile("sample|audio|wav"), "frames": re.compile("frame")}


class Roles(NamedTuple):
    """How a model uses its sizes. Roles rank accepted sizes but never decide acceptance.

    Attributes:
        alike: Groups of names with the same role, such as height and width.
        divisors: For each name, the numbers by which some shape divides it.
        usual: Conditions that preferred sizes satisfy.
        batch: Names of batch sizes, which stay 1 if possible.
        kinds: What each name stands for, a key of `TYPICAL`.
    """

    alike: tuple[tuple[str, ...], ...] = ()
    divisors: Mapping[str, frozenset[int]] = {}
    usual: tuple[Cond, ...] = ()
    batch: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = {}

    def starts(self) -> Iterator[dict[str, int]]:
        """Yield typical sizes of all names, the most usual ones first; names that stand for the same have equal sizes."""
        kinds = dict.fromkeys(self.kinds.values())
        for sizes in product(*(TYPICAL[kind] for kind in kinds)):
            at = dict(zip(kinds, sizes, strict=True))
            yield {n: at[kind] for n, kind in self.kinds.items()}


NO_ROLES = Roles()


def find_roles(
    conds: Sequence[Cond],
    inputs: Sequence[Shape],
    names: Sequence[str],
    dims: Iterable[Dim],
    usual: tuple[Cond, ...],
    fixed: Container[str | None] = (),
) -> Roles:
    """Return the roles of the names of a model with these conditions, input shapes, and sizes of all tensors.

    Names in `fixed`, such as lengths of caches, are no sides of an image.
    """
    named = frozenset(n for n in names if "batch" in n.lower())
    first = frozenset(d.name for shape in inputs for d in shape[:1] if len(shape) > 1 and d.name)
    batch = named or first
    groups = dict.fromkeys(tuple(d.name for d in shape[1:] if d.name in names) for shape in inputs)
    alike = [group for found in groups for group in interchangeable([n for n in found if n], conds)]
    kinds = dict.fromkeys(names, "length") | dict.fromkeys(_sides(inputs, names, fixed), "image")
    kinds |= {n: kind for n in names for kind, words in _NAMED.items() if words.search(n.lower())}
    kinds |= {n: "batch" for n in names if n in batch}
    return Roles(tuple(alike), divisors_of(dims), usual, batch, kinds)


def _sides(inputs: Sequence[Shape], names: Sequence[str], fixed: Container[str | None]) -> Iterator[str]:
    """Yield the names of sides of images: an input of its own shape with few channels, or several sizes that vary."""
    images = []
    for shape in inputs:
        if len(shape) >= len("NCHW") and inputs.count(shape) == 1:
            varying = [d for d in shape[1:] if d.terms and d.name not in fixed]
            channels = min((d.const for d in (shape[1], shape[-1]) if not d.terms), default=len(shape))
            images += [shape] * (len(varying) > 1 or (len(varying) > 0 and channels <= len("RGBA")))
    others = {d.name for shape in inputs if shape not in images for d in shape}
    for image in images:  # a mask [batch, 1, seq, total_seq] is none: seq is the length of another input
        if not others.isdisjoint(d.name for d in image[1:] if d.terms):
            others.update(d.name for d in image)
    sides = dict.fromkeys(d.name for image in images for d in image[1:])
    yield from (n for n in names if n in sides and n not in others)


def interchangeable(names: Sequence[str], conds: Sequence[Cond]) -> list[tuple[str, ...]]:
    """Return the groups of names that the conditions treat alike: swapping two of them changes nothing."""
    links = by_symbol(conds)
    groups: list[list[str]] = []
    for name in dict.fromkeys(names):
        group = next((g for g in groups if _swapped(g[0], name, links) == _about(g[0], name, links)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [tuple(group) for group in groups if len(group) > 1]


def _about(a: str, b: str, links: Mapping[str, Sequence[Cond]]) -> set[Cond]:
    return {*links.get(a, ()), *links.get(b, ())}


def _swapped(a: str, b: str, links: Mapping[str, Sequence[Cond]]) -> set[Cond]:
    return {c.subs({a: symbol(b), b: symbol(a)}) for c in _about(a, b, links)}


def divisors_of(roots: Iterable[Cond | Dim]) -> dict[str, frozenset[int]]:
    """Return the numbers by which conditions or dims divide expressions of each symbol."""
    found: dict[str, set[int]] = {}
    for atom in atoms_of(*roots):
        if atom.kind in ("//", "%") and not atom.args[1].terms:
            for name in atom.args[0].free:
                found.setdefault(name, set()).add(atom.args[1].const)
    return {name: frozenset(numbers) for name, numbers in found.items()}
