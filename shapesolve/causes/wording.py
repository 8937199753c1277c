"""Writes sentences about conflicts and requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..expr import Dim, constant, product
from ..lines import join_names
from ..lower.reason import BROADCAST, ELEMENTS, detail_of, fault_of, reason_id
from ..lower.records import Entry
from ..lower.types import Tensor
from ..model import Node
from ..solve.facts.constraint import Constraint, Origin, Site
from .finding import Operand, Step
from .limits import MAX_EXAMPLES, MAX_LISTED, MAX_NUMBERS, MAX_QUOTED
from .operands import held_text, holding_text, input_sites, sites_of, size_at
from .trace import Link

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from .given import GivenSizes
    from .repair import Repair


def title_of(entry: Entry, lowered: Lowered) -> str:
    """Title of a conflict: the fault of a node in one line."""
    node = entry.node
    if node is None:
        return "these conditions contradict each other"
    rule = lowered.rule(node, entry.prefix)
    fault = fault_of(entry.why) or (rule.fault if rule is not None else "")
    if not fault:
        broadcasts = reason_id(entry.why) == BROADCAST.id
        fault = "cannot broadcast these shapes" if broadcasts else "cannot run on these shapes"
    return f"{node.op_type} {fault}"


def attributes_text(node: Node) -> tuple[str, ...]:
    """Note with the node's short attributes."""
    listed = []
    for name, value in node.attributes.items():
        if isinstance(value, (int, str)) and len(str(value)) <= 40:
            listed.append(f"{name} = {value}")
        elif (
            isinstance(value, tuple) and len(value) <= MAX_NUMBERS and all(isinstance(v, int) for v in value)
        ):
            listed.append(f"{name} = [{', '.join(map(str, value))}]")
    return (f"with {', '.join(listed[:MAX_NUMBERS])}",) if listed else ()


def quoted_conditions(texts: Sequence[str], quote: str = "`") -> str:
    """List of conditions for a title or note: the first readable ones, and the number of others."""
    quoted = [f"{quote}{text}{quote}" for text in texts if is_short(text)][:MAX_LISTED]
    rest = len(texts) - len(quoted)
    if rest:
        count = f"{rest} more" if quoted else "a" if rest == 1 else str(rest)
        unread = "" if quoted else " too long to read here"
        quoted.append(f"{count} condition{'s' if rest > 1 else ''}{unread}")
    return ", ".join(quoted)


def is_short(text: str) -> bool:
    """Return True if the text is short enough (at most 160 characters) for a title."""
    return len(text) <= MAX_QUOTED


def shape_text(tensor: str, lowered: Lowered) -> str:
    """``name [shape]`` for a sentence."""
    shape = lowered.shapes.get(tensor)
    return f"{tensor} {shape}" if shape is not None else f"{tensor} of unknown rank"


def operand_rows(sites: Iterable[Site], lowered: Lowered) -> tuple[Operand, ...]:
    """Rows for the operands of a condition: name, shape, origin, and elements if relevant.

    Shapes are those that the node was given, in the names that inputs declare.
    """
    rows = {s.tensor: s.data for s in sites}
    return tuple(_operand_row(t, lowered, data) for t, data in rows.items())


def _operand_row(tensor: str, lowered: Lowered, data: bool) -> Operand:
    made = lowered.tensors.get(tensor)
    known = made if isinstance(made, Tensor) else None
    shape = lowered.shapes.get(tensor) if known is None or known.shape is None else known.shape
    value = lowered.values.get(tensor) if known is None or known.value is None else known.value
    made_up = value is not None and any(
        isinstance(e, Dim) and not e.free <= lowered.symbols.keys() for e in value.elems or ()
    )
    holds = held_text(value) if data and not made_up else ""
    node, _ = lowered.producers.get(tensor, (None, ""))
    named = node is not None and node.label in tensor  # as exporters name outputs: "/fc/Gemm_output_0"
    origin = ", ".join(
        filter(None, ("" if named else origin_text(tensor, lowered), f"holds {holds}" if holds else ""))
    )
    return tensor, str(shape) if shape is not None else "of unknown rank", origin


def origin_text(tensor: str, lowered: Lowered) -> str:
    """Origin of a tensor: an input, an initializer, or a node."""
    made = lowered.producers.get(tensor)
    if made is not None:
        return f"from {made[1]}{made[0].label}"
    if tensor in lowered.inputs:
        return "input"
    alias = lowered.aliases.get(tensor)
    if alias is not None:
        return f"given as {alias[0]}"
    known = lowered.tensors.get(tensor)
    value = known.value if isinstance(known, Tensor) else None
    computed = any(isinstance(e, Dim) and e.terms for e in (value.elems or () if value is not None else ()))
    return "set by the loop" if computed else "initializer"


def chain_step(site: Site, links: Sequence[Link], lowered: Lowered) -> Step:
    """Step about a size: the node or input it comes from, and the nodes that pass it on."""
    source = links[-1]
    size = size_at(site, lowered)
    through = [link for link in links[:-1] if link.node is not None]
    text = f"{site} is {source.dim if size is None else size}: {_source_text(source, lowered, bool(through))}"
    ends = [source, *(through[-1:] + through[:1])]
    if len(through) == 1:
        text += f", through {through[0].label}"
    elif through:
        text += f", through {len(through)} nodes, from {through[-1].label} to {through[0].label}"
    op_type = source.node.op_type if source.node is not None else ""
    named = tuple(dict.fromkeys(link.label for link in ends if link.label))
    return Step(source.label, op_type, source.tensor, text, named)


def declared_dim(link: Link, lowered: Lowered) -> Dim | None:
    """Return the declared dim of the input at the end of a chain; None if it ends elsewhere."""
    known = lowered.inputs.get(link.tensor) if link.kind == "input" else None
    shape = known.shape if isinstance(known, Tensor) else None
    return (
        shape[link.axis] if shape is not None and link.axis is not None and link.axis < len(shape) else None
    )


def _source_text(source: Link, lowered: Lowered, passed: bool) -> str:
    """Return the text of the origin of a size, at the end of its chain; `passed`: nodes pass it on from there."""
    holds = holding_text(source.tensor, lowered) if source.axis is None else ""
    if source.kind in ("input", "initializer"):
        if holds:
            of = f"{source.kind} {source.tensor}"
            return f"it comes from {of} = {holds}" if passed else f"{of} holds {holds}"
        declared = declared_dim(source, lowered)
        if declared is not None and declared is not source.dim:
            return f"input {source.tensor} is declared {lowered.inputs[source.tensor].shape}, and {declared} is {source.dim}"  # type: ignore[union-attr]
        shape = lowered.shapes.get(source.tensor)
        if passed:
            return f"it comes from {source.kind} {source.tensor} {shape}"
        return f"{source.kind} {source.tensor} has shape {shape}"
    if source.node is not None and source.node.is_constant:
        return (
            f"the constant {source.label} holds {holds}" if holds else f"it is in the constant {source.label}"
        )
    if source.axis is None:
        return f"{source.label} computes {holds}" if holds else f"{source.label} computes it"
    shape = lowered.shapes.get(source.tensor)
    named = source.node is not None and source.node.label in source.tensor and shape is not None
    made = str(shape) if named else shape_text(source.tensor, lowered)
    return f"{source.label} makes {made}{_made_of(source, lowered)}"


def _made_of(source: Link, lowered: Lowered) -> str:
    """Return the text of the inputs of a node that computes a size: ``from x [batch, seq, 768]``."""
    assert source.node is not None
    given = {s.tensor: s for s in input_sites(source.node, source.prefix, lowered)}
    known = [s for n, s in given.items() if n in lowered.shapes and len(lowered.shapes[n]) > 0]
    examples = [_given(s, lowered) for s in known[:MAX_EXAMPLES]]
    return f" from {join_names(examples)}" if examples else ""


def _given(site: Site, lowered: Lowered) -> str:
    holds = holding_text(site.tensor, lowered) if site.data else ""
    return f"{site.tensor} = {holds}" if holds else shape_text(site.tensor, lowered)


def need_text(constraint: Constraint, entry: Entry, lowered: Lowered) -> str:
    """Sentence, without full stop, about one constraint."""
    origin = constraint.origin
    if constraint.role == "user":
        return f"{constraint.cond} is given"
    if constraint.role == "assumption":
        named = constraint.assumption
        return f"it is assumed that {named}" if named is origin.rule else f"{named} is assumed: {origin.rule}"
    if not origin.node:
        return f"{constraint.cond}: {origin.rule}"
    where = "" if entry.guard.is_true else f" where {lowered.walk.described(entry.guard)}"
    if constraint.cond.is_false:
        counts = elements_text(entry, lowered)
        if counts:
            return f"{origin.node}{where}: {counts}"
        facts = [t for s in sites_of(entry, lowered) if (t := _fact(s, lowered))]
        reason = f"{origin.rule} must hold" if reason_id(origin.rule) == "formula" else detail_of(origin.rule)
        return f"{origin.node}{where}: {reason}" + (f", but {_joined(facts)}" if facts else "")
    needs = "needs" if constraint.role == "requirement" else "gives"
    return f"{origin.node} {needs} {constraint.cond}{where}: {origin.rule}"


def elements_text(entry: Entry, lowered: Lowered) -> str:
    """Text: elements of a reshaped tensor, and those that its target asks for. Empty if unknown."""
    node = entry.node
    if node is None or reason_id(entry.why) != ELEMENTS.id:
        return ""
    source = lowered.full_name(node.inputs[0], entry.prefix)
    known = lowered.tensors.get(source)  # as it was before what later nodes need was known
    given = known.shape if isinstance(known, Tensor) else None
    sites = [s for s in sites_of(entry, lowered) if s.data]
    value = lowered.values.get(sites[0].tensor) if sites else None
    target = [e.const for e in (value.elems or () if value else ()) if isinstance(e, Dim) and not e.terms]
    if given is None or value is None or value.elems is None or len(target) < len(value.elems):
        return ""
    copies = not node.attributes.get("allowzero", 0)
    if copies and any(n == 0 and k >= len(given) for k, n in enumerate(target)):
        return ""
    dims = [given[k] if copies and n == 0 else constant(n) for k, n in enumerate(target) if n != -1]
    has, asked, computed = given.numel, product(dims), -1 in target
    if computed and asked.value == 0:
        if not entry.cond.is_false:
            return ""
        why = " for an empty input" if has.value == 0 else ": the other sizes have a product of 0"
        return f"-1 in {sites[0].tensor} cannot be computed{why}"
    if has is asked and not computed:  # equal under what the condition itself says
        return ""
    if not (has.free | asked.free).isdisjoint(lowered.reasons) or not is_short(f"{has}{asked}"):
        return ""
    wanted = f"a multiple of {asked}" if computed else str(asked)
    return f"{source} has {has} elements, but {sites[0].tensor} requires {wanted}"


def rule_text(entry: Entry, lowered: Lowered) -> str:
    """Return the reason of a condition with the numbers of its node."""
    return elements_text(entry, lowered) or detail_of(entry.why)


def _fact(site: Site, lowered: Lowered) -> str:
    size = size_at(site, lowered)
    if size is not None:
        return f"{site} is {size}"
    holds = holding_text(site.tensor, lowered) if site.data else ""
    if holds:
        return f"{site.tensor} holds {holds}"
    if site.axis is not None:
        return ""
    shape = lowered.shapes.get(site.tensor)
    return "" if shape is None else f"{site.tensor} is {shape}"


def _joined(facts: Sequence[str]) -> str:
    return f"{', '.join(facts[:-1])} and {facts[-1]}" if len(facts) > 1 else facts[0]


def breaking_text(
    origin: Origin, operands: Sequence[Site], sizes: Mapping[str, int], given: GivenSizes
) -> str:
    """Return the text of the operands of a node's condition at these sizes. Empty if no node states it."""
    if not origin.node:
        return ""
    tensors = list(dict.fromkeys(s.tensor for s in operands))
    seen = [given.text(tensor, sizes) for tensor in tensors[:MAX_LISTED]]
    return f"{origin.node} ({origin.rule})" + (f" would get {join_names(seen)}" if seen else "")


def limit_help(sizes: Mapping[str, int], repairs: Sequence[Repair]) -> str:
    """Return help text for dims that run at few sizes: tested edits, or a declaration.

    Args:
        sizes: The dims, with sizes for which the model runs.
        repairs: Edits that remove all restrictions of the dims.
    """
    by_size: dict[int, list[str]] = {}
    for name, size in sizes.items():
        by_size.setdefault(size, []).append(name)
    declare = ", ".join(f"{join_names(names)} as {size}" for size, names in by_size.items())
    if repairs:
        edits = ". Or: ".join(map(str, repairs))
        return f"{edits}, or declare {declare}" if declare and all(r.derives for r in repairs) else edits
    return f"declare {declare}" if declare else ""


def export_note(names: Sequence[str], constant: str) -> tuple[str, ...]:
    """A note on `generalize`, for dims limited by a constant that holds a size of the export."""
    return (
        f"{constant} holds a size of the export; with a second export at another size,"
        f" `shapesolve generalize` may make {join_names(names)} dynamic",
    )
