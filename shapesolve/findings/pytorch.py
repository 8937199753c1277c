"""Kinds of findings of `shapesolve.torch.check`; this module does not need PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

from ..causes.finding import Kind


def printed_example(code: str) -> str:
    """Return what a check printed for the example of a kind, or an empty text; tests/torch/torch_pages.py has the modules."""
    parts = re.split(r"^## (\w+)\n", Path(__file__).with_suffix(".md").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2])).get(code, "").strip()


class Fixed(Kind):
    """PyTorch: a dim declared dynamic came out with one size

    A dim that `dynamic_shapes` declares dynamic has a fixed size: the module, or one of its operators, only
    runs with this size. The notes quote the declaration, the condition found, and a declared size that does
    not run.

    ## What to do

    Compute the size from the input's shape instead of hard-coding it, or paste the declaration in `help`.
    torch.export treats an example size of 1 as a constant; use an example size of 2 or more.
    """

    code, severity = "SS601", "error"


class Tied(Kind):
    """PyTorch: dims declared independent came out tied to each other

    The module only runs if independently declared dims satisfy a relation, such as `total == past + seq`.

    ## What to do

    Declare the relation: paste the declaration in `help`.
    """

    code, severity = "SS602", "error"


class Restricted(Kind):
    """PyTorch: a dim declared dynamic came out restricted to some sizes

    A dim that was declared dynamic runs with some sizes only, for instance with multiples of 8.

    ## What to do

    Declare the restriction as `help` says, or lift it in the code.
    """

    code, severity = "SS603", "error"


class RangeTooWide(Kind):
    """PyTorch: the declared range is wider than what runs

    The range that a `Dim(min=..., max=...)` declares is wider than the sizes that run.

    ## What to do

    Declare the limit that `help` gives, or lift it in the code.
    """

    code, severity = "SS604", "error"


class UndeclaredLimit(Kind):
    """PyTorch: the module limits a dim whose declaration states no limit

    The module limits a dim, for example by the length of a position table, but the declaration has no
    limit. Callers only notice it at run time.

    ## What to do

    Declare the limit, or remove it from the module.
    """

    code, severity = "SS605", "warning"


class LeftToExport(Kind):
    """PyTorch: a dim left to torch.export came out fixed, tied or restricted

    A dim left to torch.export (`Dim.AUTO`) became fixed, related to others, or restricted.

    ## What to do

    Nothing, if this is intended. Otherwise, declare the dim with a name. The restriction then becomes an
    error with its own page.
    """

    code, severity = "SS606", "warning"


class Refused(Kind):
    """PyTorch: torch.export refuses the module

    torch.export rejects the module or its declaration. If the reason is a known one, the title explains it;
    the notes quote torch.export.

    ## What to do

    If the module fails with the example arguments, fix that call first. If torch.export cannot resolve a
    data-dependent condition, keep the decision in tensors (`torch.where`, masks), or add a condition with
    `torch._check(...)`. Neither was tried for your module.
    """

    code, severity = "SS607", "error"


class Unwritable(Kind):
    """PyTorch: the exporter cannot write the module as ONNX

    torch.export succeeded, but the exporter cannot convert one of the calls to ONNX. The finding names the
    operator and the line of the module. The export is at fault, not the module; if the module was run
    successfully, the title says so. An export that makes `nn.LSTM` a loop of its steps, because the length
    is no plain dim, is stopped after 128 steps.

    ## What to do

    Use operators that ONNX supports, or pass a `custom_translation_table` to `torch.onnx.export`. If the
    exporter's optimizer fails, pass `optimize=False`. If it fails on `nn.LSTM` or `nn.GRU` behind pooling
    or strides, declare the size in multiples (`2*Dim("_width")`), so that the length is not rounded.
    Neither was tried for your module.
    """

    code, severity = "SS608", "error"


class Failing(Kind):
    """PyTorch: the module fails, or its graph computes something else, at a declared size

    The module was run at some declared sizes. It fails for one of them, or the exported file fails in
    onnxruntime or computes a different result from the same data. No guard of torch.export and no
    requirement of the graph covers this. The notes show sizes that fail and sizes that run.

    ## What to do

    Fix the line, or declare only sizes that work. A declaration suggested in `help` has been checked: it
    was exported, and the module was run at its sizes. If a note says that the file agrees without the sizes
    declared inside, clear them before you save it. Otherwise look for a size or value that becomes a Python
    number during tracing, or for an operator that the exporter decomposes only for the example's sizes.
    """

    code, severity = "SS609", "error"


class TracerRefused(Kind):
    """PyTorch: torch.export's trace excludes sizes that the module supports

    This finding no longer occurs. The file that `torch.onnx.export` writes is judged, so that sizes which
    torch.export made numbers in it are reported as [SS601](SS601.md) to [SS604](SS604.md). A call that is
    rejected is [SS607](SS607.md).

    ## What to do

    Nothing. The code stays valid in `--ignore` and `--select`.
    """

    code, severity = "SS610", "error"


class AlternativeForm(Kind):
    """PyTorch: the exporter cannot export the module as written, but can export an alternative form

    This finding no longer occurs. An exporter that fails is [SS608](SS608.md), and other calls of it are
    not tried.

    ## What to do

    Nothing. The code stays valid in `--ignore` and `--select`. Two changes of the call sometimes help:
    `torch.onnx.export(..., optimize=False)`, and
    `torch.onnx.export(torch.export.export(...).run_decompositions())`.
    """

    code, severity = "SS611", "error"


class NothingDynamic(Kind):
    """PyTorch: no size is declared dynamic

    `torch.onnx.export` was checked without `dynamic_shapes`. Every size is then a number in the file, which
    takes inputs of the example's sizes and no others.

    ## What to do

    Paste the declaration of `help`, without the dims that are not to change: it was exported, and its file
    was run at other sizes. `dynamic_shapes={}` states that all sizes are meant to be fixed.
    """

    code, severity = "SS612", "warning"


class Declaration(Kind):
    """PyTorch: a declaration of dynamic sizes to paste

    You asked for a declaration (`infer=True`, `--infer`, or several examples). `help` has it as
    `dynamic_shapes`: dynamic sizes have names, equal sizes share a name, and limits are declared. All other
    sizes are fixed.

    ## What to do

    Paste it, rename the dims, and leave out the dims that should stay fixed.
    """

    code, severity = "SS613", "info"


class DecidedByData(Kind):
    """PyTorch: whether the module runs at declared sizes depends on input data

    A size comes from an input's values: from `.item()`, a boolean mask, or `nonzero`. At the same declared
    sizes, the module runs with some values and fails with others. The notes show both runs.

    ## What to do

    Take the size from the input's shape (`torch.arange(x.shape[1])`), or require callers to satisfy the
    condition in the notes.
    """

    code, severity = "SS614", "warning"
