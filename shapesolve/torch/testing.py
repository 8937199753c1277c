"""`assert_exports` and `assert_exportable`: the check as an assertion for a test suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis import BroadcastMode
from .checking import check
from .report import Report


def assert_exportable(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    assume: Iterable[str] = (),
    broadcast: BroadcastMode = "named",
    warnings: bool = False,
    **options: Any,
) -> Report:
    """Asserts that a module can be exported as declared: `check` finds no error. With ``warnings=True`` no warning either.

        def test_export() -> None:
            assert_exportable(Net(), (torch.zeros(2, 16),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})

    Returns the report; raises `AssertionError` with the report as its message.
    """
    report = check(module, args, kwargs, dynamic_shapes, assume, broadcast, **options)
    bad = [f for f in report.findings if f.severity == "error" or (warnings and f.severity == "warning")]
    if bad:
        raise AssertionError(f"{report.name} cannot be exported as declared\n\n{report}")
    return report


def assert_exports(
    module: Any, example: Sequence[Any] = (), dynamic_shapes: Any = None, **options: Any
) -> Report:
    """Asserts that ``torch.onnx.export`` with these arguments gives a file that follows the module.

        def test_export() -> None:
            assert_exports(Net(), (torch.zeros(2, 16),), {"x": {0: Dim("batch", max=64)}})

    Args:
        module: as for `check`.
        example: example arguments.
        dynamic_shapes: the declaration.
        options: as for `assert_exportable`.

    Returns the report; raises `AssertionError` with the report as its message.
    """
    return assert_exportable(module, example, dynamic_shapes=dynamic_shapes, **options)
