"""Progress of long work on a terminal's stderr, drawn by Rich, which is imported only after a delay."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from .layout import colours


class _Left(TimeRemainingColumn):
    """Column with the remaining time, if it can be estimated."""

    def render(self, task: Task) -> Text:
        """Return the remaining time, empty if it is unknown or the task is finished."""
        if task.time_remaining is None or task.finished:
            return Text("")
        return Text.assemble(super().render(task), " left")


def draw(what: str, end: Event, every: float, counts: Callable[[], tuple[int, int] | None]) -> None:
    """Draw a progress bar until `end` is set, then remove it."""
    columns = (BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn(), _Left(compact=True))
    with Progress(
        *columns,
        console=Console(stderr=True, highlight=False, color_system=colours()),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=1 / every,
    ) as bar:
        task = bar.add_task(what, total=None)
        while True:
            known = counts()
            if known is not None:
                done, total = known
                bar.update(task, completed=done, total=total, description=f"{done:,} of {total:,} {what}")
            if end.wait(every):
                return
