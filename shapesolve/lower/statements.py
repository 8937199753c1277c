# compiled: see CONTRIBUTING.md
"""Log of one lowering: recorded conditions, new symbols, contradictions, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Literal

from ..expr import ONE, TRUE, Cond, Dim, all_of, any_of, eq, ge, symbol
from ..model import Node
from .records import Clash, Entry, FactStore, Note, Place, Scope
from .request import Request
from .state import LoweringState
from .types import Interner, Known, is_settled

if TYPE_CHECKING:
    from ..solve.facts.constraint import Role

Kind = Literal["size", "value"]
#: prefixes of generated symbols
PREFIXES: Mapping[Kind, str] = {"size": "_d", "value": "_v"}
#: begin of the meaning of a generated symbol that is 1 if a boolean is true, and else 0
TRUTH = "truth of "


class Statements:
    """Log of one lowering: each condition is recorded and added to the facts."""

    def __init__(self, facts: FactStore, scope: Scope, request: Request) -> None:
        self.facts, self.scope, self.request = facts, scope, request
        self.state, self.interner = LoweringState(), Interner()

    # ------------------------------------------------------------------ names

    def reserve(self, names: Iterable[str]) -> None:
        """Reserves names that generated symbols must not have."""
        self.state.reserved.update(names)

    def take(self, names: Iterable[str]) -> None:
        """Register the names of input dims, which generated symbols must not have."""
        self.state.of_inputs.update(names)
        self.state.taken.update(self.state.of_inputs)

    def fresh(self, what: str, kind: Kind = "size") -> Dim:
        """A new generated symbol: ``_d0``, ``_d1`` ... for sizes, ``_v0`` ... for data, which may be any integer."""
        while True:
            number = self.state.numbers.get(kind, 0)
            name, self.state.numbers[kind] = f"{PREFIXES[kind]}{number}", number + 1
            if name not in self.state.taken and name not in self.state.reserved:
                break
        self.state.reasons[name] = what
        self.facts.introduce(name)
        made = self.state.made[name] = symbol(name, 0 if kind == "size" else None, made=True)
        return made

    def described(self, cond: Cond) -> str:
        """A condition as text: "flag is true", or with the meaning of each generated symbol in brackets."""
        parts = {c: self._truth_text(c) for c in (cond.args if cond.kind == "and" else (cond,))}
        rest = all_of(c for c, text in parts.items() if not text)
        texts = [text for text in parts.values() if text]
        if rest.is_true:
            return " and ".join(texts) or str(cond)
        named = [f"{n}: {self.state.reasons[n]}" for n in sorted(rest.free) if n in self.state.reasons]
        texts.append(f"({rest})" if texts and rest.kind == "or" else str(rest))
        return " and ".join(texts) + (f" ({', '.join(named)})" if named else "")

    def _truth_text(self, cond: Cond) -> str:
        """Return the text of the condition that a boolean is true or false; empty for any other condition."""
        found = cond.solved() if cond.kind in ("==", "!=") else None
        reason = "" if found is None else self.state.reasons.get(found[0], "")
        if found is None or found[1] is not ONE or not reason.startswith(TRUTH):
            return ""
        return f"{reason.removeprefix(TRUTH)} is {'true' if cond.kind == '==' else 'false'}"

    # ------------------------------------------------------------------ conditions

    def given(self, cond: Cond) -> None:
        """Record a user's condition."""
        self.state.log.append(Entry(cond, "user", None, "", "given by the user", (), TRUE))
        if not self.facts.assume(cond, len(self.state.log) - 1):
            self._clash_of(len(self.state.log) - 1, cond)

    def declare_size(self, size: Dim, what: str) -> None:
        """Record that an input's declared size is not negative.

        The declared expression could be negative; only inputs for which it is not are accepted.
        """
        self.state.log.append(
            Entry(ge(size, 0), "requirement", None, "", f"{what} is declared as {size}", (), TRUE)
        )
        if not self.facts.assume(ge(size, 0), len(self.state.log) - 1):
            self._clash_of(len(self.state.log) - 1, ge(size, 0))

    def require(self, cond: Cond, why: str, places: tuple[Place, ...], node: Node, scope: Scope) -> None:
        """Record a requirement of a node."""
        if not self.state.poisoned.isdisjoint(cond.free):
            return
        guard = scope.guard
        self.state.log.append(Entry(cond, "requirement", node, scope.prefix, why, places, guard))
        index = len(self.state.log) - 1
        if not guard.is_true:
            needed = any_of((~guard, cond))
            if needed.free and not self.facts.assume(needed, index):
                self._clash_of(index, cond)
        elif not self.facts.assume(cond, index):
            self._clash_of(index, cond)

    def say_size(self, d: Dim, node: Node) -> None:
        """Record that a size is not negative, unless its expression shows that."""
        cond = ge(d, 0)
        if self.facts.decide(cond) is None:
            self.require(cond, "a size is not negative", (), node, self.scope)

    def _clash_of(self, index: int, cond: Cond) -> None:
        entry = self.state.log[index]
        causes = self.facts.why(cond.free | entry.guard.free) | self.facts.contradiction | {index}
        self.state.clashes.append(Clash(index, entry.why, entry.node, entry.prefix, causes))

    def clash(self, message: str, node: Node | None, scope: Scope, *, loads: bool = True) -> None:
        """Record that a node cannot run for any sizes.

        With `loads` false, the model fails even if the node is not reached.
        """
        if scope.guard.is_true or node is None or not loads:
            self.state.clashes.append(Clash(None, message, node, scope.prefix, frozenset(), loads))
        else:  # then its branch must not be taken
            self.require(any_of(()), message, (), node, scope)

    def define(
        self, cond: Cond, why: str, node: Node | None, role: Role = "definition", *, everywhere: bool = False
    ) -> None:
        """Record a definition or an assumption; `everywhere`: also outside the current branch."""
        if cond.is_true:
            return
        guard = self.scope.guard
        if everywhere or (len(cond.free) == 1 and not cond.free.isdisjoint(self.state.reasons)):
            guard = TRUE  # a new name, or a numeric bound of a generated symbol, restricts nothing else
        self.state.log.append(Entry(cond, role, node, self.scope.prefix, why, (), guard))
        self.facts.assume(cond if guard.is_true else any_of((~guard, cond)), len(self.state.log) - 1)

    def follows_from_failure(self, node: Node, inputs: Seq[Known | None], scope: Scope) -> bool:
        """Return True if a node reads something meaningless, as a node before it cannot run."""
        read = [
            (name, known)
            for name, known in zip(node.inputs, inputs, strict=True)
            if scope.is_meaningless(name)
        ]
        for _, known in read:  # names that were given to its elements since
            self.state.poisoned.update(
                n for n in (known.free if known is not None else ()) if n not in self.state.taken
            )
        if read or any(scope.is_meaningless(name) for name in node.captures):
            return True
        return any(k is not None and not self.state.poisoned.isdisjoint(k.free) for k in inputs)

    def spread(
        self, node: Node, inputs: Seq[Known | None], outputs: Iterable[Known | None], scope: Scope
    ) -> None:
        """Mark unknown outputs of a node as meaningless if an input is meaningless."""
        if self.follows_from_failure(node, inputs, scope):
            self.spoil(node, inputs, outputs, scope)

    def spoil(
        self, node: Node, inputs: Iterable[Known | None], outputs: Iterable[Known | None], scope: Scope
    ) -> None:
        """Marks the new sizes in the outputs of a failing node as meaningless. Outputs that sizes elsewhere may depend on are
        marked too.
        """
        self.state.failed.add(f"{scope.prefix}{node.label}")
        before = {name for k in inputs if k is not None for name in k.free}
        for name, known in zip(node.outputs, outputs, strict=True):
            if known is not None:
                self.state.poisoned.update(
                    n for n in known.free if n not in before and n not in self.state.taken
                )
            if not is_settled(known):
                scope.meaningless.add(name)

    def note(self, kind: str, message: str, node: Node | None, scope: Scope, subject: str = "") -> None:
        """Record a remark about a node, or about the tensor `subject`."""
        self.state.notes.append(Note(kind, message, node, scope.prefix, subject))

    def declare(self, inferred: Dim, declared: Dim, tensor: str, axis: int, node: Node, scope: Scope) -> None:
        """Record the declared size of an output's axis, next to the inferred one.

        A new name becomes the name of a generated size. A size that is unknown for lack of knowledge (`unknown`) is
        assumed to be as
        declared; any other declaration is recorded for checking.
        """
        cond, what = eq(inferred, declared), f"{tensor}[{axis}]"
        name, why = declared.name, f"{what} is declared as {declared}"
        generated = inferred.name is not None and inferred.name in self.state.reasons
        if generated and name is not None and name not in self.state.taken:
            self.state.taken.add(name)  # the author's name for a size that we had to invent one for
            self.facts.introduce(name)
            self.define(cond, why, node, everywhere=True)
            return
        if inferred.name in self.state.unknown and declared.free <= self.state.taken:
            if self.request.granted:
                self.define(cond, why, node, "assumption", everywhere=True)
            return
        if name is not None and name not in self.state.taken:
            if (
                inferred.name in self.state.unnamed
                and not scope.prefix
                and name not in self.state.author.values()
            ):
                self.state.author.setdefault(inferred.name, name)
            return  # a name for an expression, used nowhere else
        place = len(node.inputs) + node.outputs.index(tensor), axis
        self.state.log.append(Entry(cond, "declared", node, scope.prefix, why, (place,), scope.guard))
        if self.facts.cond(cond).is_false:
            self.note("declared", f"{why}, but its size is {inferred}", node, scope)

    def take_equal(self, a: Dim, b: Dim, node: Node) -> bool:
        """Assume that two sizes are equal in the mode ``broadcast="equal"``; return False in other modes.

        Nothing is assumed if input data determines whether the node runs, because later sizes would depend on an
        assumption made
        only there, nor in trials, such as the body of a loop without iterations.
        """
        request, here = self.request, not self.state.trials and self.scope.guard.is_true
        if request.broadcast != "equal" or not request.granted or not here:
            return False
        self.define(eq(a, b), 'broadcast="equal" assumes equal sizes', node, "assumption")
        return True
