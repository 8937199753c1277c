"""Checker programs as ONNX nodes at the start of a model.

An assertion reshapes one element to ``1 + broken`` elements, which fails in every runtime. The inputs pass through a
Reshape to their own shape that waits for all assertions. All computed values are vectors of one int64; only operators
whose meaning is the same in every opset since 7 are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
from onnx import TensorProto, helper

from ...expr import Atom, Cond, Dim, all_of, le, symbol
from ...expr.printing import PRIMARY, Summands, Text, Writer
from ...expr.traverse import atoms_of
from ...solve.program import Check, Define, Program, Step
from ..limits import MAX_SIZE


def put_in_front(model: onnx.ModelProto, program: Program) -> None:
    """Add the checks to a model, in place.

    Raises:
        ValueError: If sizes of a million would overflow 64 bits, which the model cannot detect.
    """
    limit = _limit(program)
    shown = {n: p for n, p in program.places.items() if any(n in _free(s) for s in program.steps)}
    steps: list[Step] = [*program.steps]
    if shown:
        steps.insert(0, Check(all_of([le(symbol(n, None), limit) for n in shown]), f"sizes up to {limit}"))
    nodes = _Nodes(model.graph)
    passed = [name for name, rank in program.ranks.items() if rank]
    axes = {(name, i): nodes.axis(name, i) for name in passed for i in range(program.ranks[name])}
    writer = _GraphWriter(nodes, {name: axes[place] for name, place in program.places.items()})
    done = nodes.number(0)
    for step in steps:
        if isinstance(step, Define):
            writer.symbols[step.name] = writer.write(step.dim).text
        elif not step.cond.is_true:
            broken = nodes.indicator(nodes.add("Not", writer.write(step.cond).text))
            target = nodes.add("Add", nodes.number(1), broken)
            done = nodes.add("Add", done, nodes.add("Reshape", nodes.number(0), target, name=step.text))
    renamed = {
        name: nodes.passed(name, [axes[name, i] for i in range(program.ranks[name])], done) for name in passed
    }
    for node in model.graph.node:
        _rename(node, renamed)
    for info in [
        i for i in model.graph.input if i.name in renamed
    ]:  # loaders cannot infer the rank of the passed-on inputs
        model.graph.value_info.add().CopyFrom(info)
        model.graph.value_info[-1].name = renamed[info.name]
    own = [*model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([*nodes.made, *own])


def _free(step: Step) -> frozenset[str]:
    return step.dim.free if isinstance(step, Define) else step.cond.free


def _rename(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Rename input tensors of a node and its subgraphs."""
    for i, name in enumerate(node.input):
        node.input[i] = renamed.get(name, name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
            own = {i.name for i in (*graph.input, *graph.initializer)} | {
                o for n in graph.node for o in n.output
            }
            outer = {a: b for a, b in renamed.items() if a not in own}
            for inner in graph.node:
                _rename(inner, outer)
            for output in graph.output:  # a subgraph's output may be a captured tensor
                output.name = outer.get(output.name, output.name)


def _limit(program: Program) -> int:
    """Return the largest power of two up to which the checks cannot overflow."""
    limit = 2**62
    while limit >= MAX_SIZE:
        if _largest(program, limit) < 2**62:
            return limit
        limit //= 2
    raise ValueError(
        "the contract has too large products of sizes to be checked by a model in 64 bits; use another language"
    )


def _largest(program: Program, limit: int) -> int:
    """Return an upper bound of all intermediate results if sizes are at most `limit`."""
    atoms: dict[Atom, int] = {}
    symbols: dict[str, int] = {}
    highest = limit

    def bound(d: Dim) -> int:
        total = abs(d.const)
        for mono, c in d.terms:
            value = abs(c)
            for atom in mono:
                value *= max(atoms[atom], 1)
            total += value
        return total

    for step in program.steps:
        expression: Dim | Cond = step.dim if isinstance(step, Define) else step.cond
        for atom in sorted(atoms_of(expression), key=lambda a: a.size):
            if atom.kind == "sym":
                atoms[atom] = symbols.get(atom.args[0], limit)
            else:
                atoms[atom] = max(bound(a) for a in atom.args if isinstance(a, Dim))
        dims = [expression] if isinstance(expression, Dim) else list(_compared(expression))
        found = max((2 * bound(d) for d in dims), default=0)
        if isinstance(step, Define):
            symbols[step.name] = found
        highest = max(highest, found, *(2 * atoms[a] for a in atoms_of(expression)))
    return highest


def _compared(cond: Cond) -> Iterator[Dim]:
    stack: list[Cond | Dim] = [cond]
    while stack:
        part = stack.pop()
        if isinstance(part, Dim):
            yield part
        else:
            stack += part.args


class _Nodes:
    """Factory of nodes with unused names."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.made: list[onnx.NodeProto] = []
        self._taken = set(_names(graph))
        self._shapes: dict[str, str] = {}
        self._numbers: dict[int, str] = {}

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = self._fresh(f"guard_{operator}")
        self.made.append(
            helper.make_node(operator, inputs, [output], self._fresh(name) if name else output, **attributes)
        )
        return output

    def number(self, value: int) -> str:
        """Return the name of a constant."""
        if value not in self._numbers:
            tensor = helper.make_tensor("", TensorProto.INT64, [1], [value])
            self._numbers[value] = self.add("Constant", value=tensor)
        return self._numbers[value]

    def axis(self, tensor: str, axis: int) -> str:
        """Return the name of a tensor that holds one size of another tensor."""
        if tensor not in self._shapes:
            self._shapes[tensor] = self.add("Shape", tensor)
        return self.add("Gather", self._shapes[tensor], self.number(axis), axis=0)

    def indicator(self, truth: str) -> str:
        """Return the name of a tensor that is 1 if `truth` holds, and 0 otherwise."""
        return self.add("Cast", truth, to=int(TensorProto.INT64))

    def passed(self, tensor: str, sizes: Iterable[str], after: str) -> str:
        """Return a copy of the tensor that can only be computed after the checks (`after` is 0)."""
        target = self.add("Concat", *(self.add("Add", size, after) for size in sizes), axis=0)
        return self.add("Reshape", tensor, target)

    def _fresh(self, base: str) -> str:
        name, k = base, 1
        while name in self._taken:
            name, k = f"{base}_{k}", k + 1
        self._taken.add(name)
        return name


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for info in (*graph.input, *graph.output, *graph.initializer):
        yield info.name
    yield from (s.values.name for s in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
                yield from _names(inner)


class _GraphWriter(Writer):
    """Writer of expressions as nodes; the "text" of a subexpression is a tensor name."""

    chains = False

    def __init__(self, nodes: _Nodes, symbols: Mapping[str, str]) -> None:
        super().__init__()
        self.nodes, self.symbols = nodes, dict(symbols)

    def _bounded(self, node: Dim | Cond, part: Text) -> Text:
        return part

    def _name(self, name: str) -> str:
        return self.symbols[name]

    def _number(self, value: int) -> str:
        return self.nodes.number(value)

    def _sum(self, pieces: Summands, const: int) -> Text:
        found = self._number(const) if const or not pieces else ""
        for negative in (False, True):
            for piece, part in pieces:
                if (piece.coefficient < 0) is negative:
                    if negative:
                        found = self.nodes.add("Sub", found or self._number(0), part.text)
                    else:
                        found = self.nodes.add("Add", found, part.text) if found else part.text
        return Text(found, PRIMARY)

    def _product(self, coefficient: int, parts: list[Text]) -> Text:
        factors = [p.text for p in parts]
        if coefficient != 1 or not factors:
            factors.append(self._number(coefficient))
        found = factors[0]
        for factor in factors[1:]:
            found = self.nodes.add("Mul", found, factor)
        return Text(found, PRIMARY)

    def _power(self, base: Text, exponent: int) -> list[Text]:
        return [base] * exponent

    def _divided(self, sign: str, n: Text, d: Text, divisor: Dim) -> Text:
        """Return the floor division by ONNX's Div, which rounds towards 0, avoiding a divisor of 0."""
        add, zero = self.nodes.add, self._number(0)
        by = add("Add", d.text, self.nodes.indicator(add("Equal", d.text, zero))) if divisor.terms else d.text
        quotient = add("Div", n.text, by)
        rest = add("Sub", n.text, add("Mul", quotient, by))
        apart = add("Xor", self._is_negative(rest), self._is_negative(by))
        down = self.nodes.indicator(add("And", apart, add("Not", add("Equal", rest, zero))))
        if sign == "%":
            return Text(add("Add", rest, add("Mul", down, by)), PRIMARY)
        return Text(add("Sub", quotient, down), PRIMARY)

    def _is_negative(self, x: str) -> str:
        return self.nodes.add("Not", self.nodes.add("Equal", x, self.nodes.add("Abs", x)))

    def _extremum(self, name: str, a: Text, b: Text) -> Text:
        difference = self.nodes.add("Sub", a.text, b.text)
        is_less = self._is_negative(difference)
        return self._chosen(is_less, *((b, a) if name == "max" else (a, b)))

    def _chosen(self, test: str, a: Text, b: Text) -> Text:
        """Return a choice as ``b + test*(a - b)``."""
        step = self.nodes.add("Mul", self.nodes.indicator(test), self.nodes.add("Sub", a.text, b.text))
        return Text(self.nodes.add("Add", b.text, step), PRIMARY)

    def _absolute(self, x: str, negated: str) -> Text:
        return Text(self.nodes.add("Abs", x), PRIMARY)

    def _first_not_one(self, sizes: tuple[Dim, ...], parts: list[str]) -> Text:
        found = Text(parts[-1], PRIMARY)
        for size in parts[-2::-1]:
            is_one = self.nodes.add("Equal", size, self._number(1))
            found = self._chosen(is_one, found, Text(size, PRIMARY))
        return found

    def _compared(self, left: Text, relation: str, right: Text) -> str:
        if relation in ("==", "!="):
            equal = self.nodes.add("Equal", left.text, right.text)
            return equal if relation == "==" else self.nodes.add("Not", equal)
        low, high = (right, left) if relation == ">=" else (left, right)
        return self.nodes.add("Not", self._is_negative(self.nodes.add("Sub", high.text, low.text)))

    def _joined(self, kind: str, parts: list[Text]) -> str:
        found = parts[0].text
        for part in parts[1:]:
            found = self.nodes.add("And" if kind == "and" else "Or", found, part.text)
        return found

    def _truth(self, kind: str) -> str:
        return self.nodes.add("Equal", self._number(0), self._number(int(kind == "false")))
