"""Modules of the bench: a class, its example arguments, its declaration, its marked line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: ends the line of a module on which its mistake is
MARK = "# the mistake"


@dataclass(frozen=True)
class Case:
    """A module of the bench: how to make it, its example, what is declared, and the codes that are expected."""

    make: Callable[[], Any]
    args: Callable[[], tuple[Any, ...]]
    dynamic_shapes: dict[str, Any]
    codes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def marked_line(self) -> int:
        lines, first = inspect.getsourcelines(self.make)
        (line,) = [first + i for i, text in enumerate(lines) if text.rstrip().endswith(MARK)]
        return line

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.make) or ""


class Bench(list[Case]):
    """Collects cases: ``@bench.add(args, dynamic_shapes, "SS601")`` above a module."""

    def add(self, args: Callable[[], tuple[Any, ...]], dynamic_shapes: dict[str, Any], *codes: str) -> Any:
        def register(make: Any) -> Any:
            self.append(Case(make, args, dynamic_shapes, codes))
            return make

        return register
