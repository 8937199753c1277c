"""Conversion of functions into Click commands, with arguments and options declared by annotations.

    def check(model: Annotated[Path, Argument("MODEL", help="The file.")], quiet: Annotated[bool, Option("--quiet")] =
    False)

The type determines how a value is parsed, and the default whether it is optional.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import click
from click.exceptions import NoArgsIsHelpError

from ..expr.nearest import did_you_mean, like
from .console import fail, run

_EXAMPLE = re.compile(r"^( +)(shapesolve .*)$", re.MULTILINE)


def coloured() -> bool:
    """Return True if stdout supports colors. NO_COLOR disables them, and FORCE_COLOR enables them in a pipe."""
    if os.environ.get("NO_COLOR"):
        return False
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return terminal or bool(os.environ.get("FORCE_COLOR"))


class Formatter(click.HelpFormatter):
    """Help formatter with bold headings and colored option names."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line."""
        super().write_usage(_typed(prog), args, f"{_heading(prefix or 'Usage:')} ")

    def write_heading(self, heading: str) -> None:
        """Write a section heading."""
        self.write(f"{'':>{self.current_indent}}{_heading(f'{heading}:')}\n")

    def write_text(self, text: str) -> None:
        """Write the description of a command, with its examples styled."""
        start = len(self.buffer)
        super().write_text(text)
        self.buffer[start:] = [_EXAMPLE.sub(_example, part) for part in self.buffer[start:]]

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of options with their descriptions."""
        super().write_dl([(_typed(name), meaning) for name, meaning in rows], col_max, col_spacing)


class Context(click.Context):
    """Click context with colored help."""

    formatter_class = Formatter


def _heading(text: str) -> str:
    return click.style(text, bold=True)


def _typed(text: str) -> str:
    return click.style(text, fg="cyan")


def _example(found: re.Match[str]) -> str:
    return f"{found[1]}{_typed(found[2])}"


@dataclass(frozen=True)
class Argument:
    """Positional argument of a command."""

    metavar: str
    help: str


class Option:
    """Named option of a command: ``Option("-n", "--count", metavar="N", min=1, help="Number of runs.")``.

    `needs` lists parameters, or `NAME=VALUE`. At least one of them must also be given.
    """

    def __init__(
        self,
        *names: str,
        metavar: str | None = None,
        min: int | None = None,
        max: int | None = None,
        needs: Sequence[str] = (),
        help: str,
    ) -> None:
        self.names, self.metavar, self.min, self.max, self.help = names, metavar, min, max, help
        self.needs = needs


class OneLine(click.Command):
    """Command that reports usage errors in one line and has colored help."""

    context_class = Context

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments; usage errors end the command."""
        extra.setdefault("color", coloured())
        try:
            return super().make_context(info_name, args, parent, **extra)
        except NoArgsIsHelpError:
            raise
        except click.UsageError as e:
            if extra.get("resilient_parsing"):  # a shell completes the command
                raise
            refuse(e)


def refuse(error: click.UsageError) -> NoReturn:
    """End the command with Click's usage error."""
    near = did_you_mean([repr(name) for name in getattr(error, "possibilities", None) or ()])
    text = (error.message if near else error.format_message()).rstrip(".")
    place = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
    fail(f"{text[:1].lower()}{text[1:]}{near}{place}")


class Command(OneLine):
    """Command made from a function, whose parameters are inspected on demand.

    Attributes:
        example: Introduction of the example on the command's page, then its command lines, which are run in a folder
            with `examples`.
    """

    def __init__(
        self, name: str | None, callback: Callable[..., Any], example: Sequence[str] = (), **attributes: Any
    ) -> None:
        self.example = example
        params = list(_parameters(callback))
        self.returns = str(callback.__annotations__.get("return"))
        self.adds_json = "Result[" in self.returns.replace(_NO_JSON, "") and all(
            p.name != "json" for p in params
        )
        params += [] if not self.adds_json else [click.Option(["--json"], is_flag=True, help="Print JSON.")]
        params += [] if name in _WITHOUT_MODELS else [_plugins()]
        self.prints = name not in _SERVING and all("--output" not in p.opts for p in params)
        params += [_output(), _quiet()] if self.prints else []
        self.writes = name not in _SERVING
        params += [_force()] if self.writes else []
        super().__init__(name, callback=callback, **attributes | {"params": params})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; its output goes to the file given with ``--output``, or is dropped with ``--quiet``."""
        given = ctx.params
        self._check_needs(ctx)
        check = partial(self._check_output, given.get("output"), dict(given), given.pop("force", False))
        if self.prints:
            check()
        output: Path | None = given.pop("output", None) if self.prints else None
        quiet = given.pop("quiet", False) if self.prints else False
        json = given.pop("json", False) if self.adds_json else given.get("json", False)
        if "format" in given:
            given["format"] = "json" if json else given["format"]
            json = given["format"] == "json"
        invoke = super().invoke

        def answer() -> Any:
            if self.writes and not self.prints:
                check()
            return invoke(ctx)

        call = partial(run, ctx.info_name or "", answer, json, given.get("output"))
        if output is None and not quiet:
            return call()
        text = io.StringIO()
        try:
            with redirect_stdout(text):
                return call()
        finally:
            if output is not None and text.getvalue():
                _write(output, text.getvalue())

    def _check_needs(self, ctx: click.Context) -> None:
        """Reject an option that would have no effect."""
        named = {p.name: p for p in self.params if isinstance(p, _Option)}

        def is_given(need: str) -> bool:
            name, _, value = need.partition("=")
            return ctx.params.get(name) == value if value else ctx.get_parameter_source(name) is _TYPED

        for option in named.values():
            if option.needs and is_given(str(option.name)) and not any(map(is_given, option.needs)):
                parts = [need.partition("=") for need in option.needs if need.partition("=")[0] in named]
                needed = [f"{_long_name(named[name])} {value}".strip() for name, _, value in parts]
                fail(f"{_long_name(option)} requires {' or '.join(needed)}")

    def _check_output(self, output: Path | None, given: Mapping[str, Any], force: bool) -> None:
        if output is None or not output.exists():
            return
        models = [given[p.name] for p in self.params if isinstance(p, _Argument) and p.name]
        files = [Path(f) for m in models for f in (m if isinstance(m, list) else [m]) if f]
        if any(output.samefile(f) for f in files if f.exists()):
            fail(f"cannot overwrite the model itself: {output}; choose another file")
        folder = any(p.metavar == "FOLDER" and "--output" in p.opts for p in self.params)
        taken = output.is_dir() and any(output.iterdir()) if folder else output.is_file()
        if taken and not force:
            fail(f"{output} already exists; pass --force to overwrite it")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of arguments, then of options."""
        rows = [(p.metavar or "", p.help_text) for p in self.get_params(ctx) if isinstance(p, _Argument)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        with formatter.section("Options"):
            formatter.write_dl([record for p in options if (record := p.get_help_record(ctx))])

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing, because `format_options` writes arguments."""


#: source of a parameter that was given
_TYPED = click.core.ParameterSource.COMMANDLINE
#: annotation of a command without `--json`
_NO_JSON = "Result[None]"
#: commands whose output is not a result
_SERVING = ("serve", "view")


def _output() -> click.Option:
    return click.Option(
        ["-o", "--output"],
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write the output to a file.",
    )


def _force() -> click.Option:
    return click.Option(["--force"], is_flag=True, help="Overwrite an existing output file.")


def _quiet() -> click.Option:
    return click.Option(["-q", "--quiet"], is_flag=True, help="Print only errors.")


def _write(output: Path, text: str) -> None:
    from ..model.saving import write_atomically

    try:
        write_atomically(output, text.encode("utf-8", "backslashreplace"))
    except ValueError as e:  # a folder, a device, a link
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")


#: commands that do not use operator rules
_WITHOUT_MODELS = ("rule",)


def _plugins() -> click.Option:
    """Return the option that loads operator rules, including those from the project's settings."""
    return click.Option(
        ["--plugin"],
        metavar="MODULE",
        multiple=True,
        expose_value=False,
        callback=_load_plugins,
        help="Load rules for custom operators from a Python module; may be repeated.",
    )


def _load_plugins(ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> None:
    if ctx.resilient_parsing:
        return
    from ..settings import project_plugins

    try:
        named, folder = project_plugins()
        if not named and not given:
            return
        from ..operators.plugins import load_plugin

        for name, place in (*((n, folder) for n in named), *((n, Path.cwd()) for n in given)):
            load_plugin(name, place)
    except ValueError as e:
        fail(str(e))


class _Argument(click.Argument):
    """Positional argument with help text."""

    def __init__(self, name: str, help: str, **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.help_text = f"{help}  [required]" if self.required else help


class _OneOf(click.Choice[str]):
    """Value of an enum or `Literal`."""

    def __init__(self, values: Iterable[str], read: Callable[[str], Any] = str) -> None:
        super().__init__([*values])
        self.read = read

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return (
            f"expected one of {', '.join(self.choices)}, got {str(value)!r}{like(str(value), self.choices)}"
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.read(super().convert(getattr(value, "value", value), param, ctx))


def _parameters(function: Callable[..., Any]) -> Iterator[click.Parameter]:
    given = {n: of for n, of in function.__annotations__.items() if n != "return"}
    hints = get_type_hints(SimpleNamespace(__annotations__=given), function.__globals__, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, declared = get_args(hints[name])
        if get_origin(kind) is UnionType:
            (kind,) = (k for k in get_args(kind) if k is not NoneType)
        many = get_origin(kind) is list
        attributes: dict[str, Any] = {
            "required": parameter.default is parameter.empty,
            "metavar": declared.metavar,
        }
        if not attributes["required"]:
            attributes["default"] = getattr(parameter.default, "value", parameter.default)
        if many:
            (kind,) = get_args(kind)
            attributes["callback"] = _as_list
        if isinstance(declared, Argument):
            yield _Argument(name, declared.help, type=_type(kind), nargs=-1 if many else 1, **attributes)
        elif kind is bool:
            yield _Option(
                [*declared.names, name], is_flag=True, help=declared.help, needs=declared.needs, **attributes
            )
        else:
            read = _type(kind, declared.min, declared.max)
            shown = attributes.get("default") != ""
            option = _Option if many else _Once
            yield option(
                [*declared.names, name],
                type=read,
                multiple=many,
                help=declared.help,
                show_default=shown,
                needs=declared.needs,
                **attributes,
            )


class _Option(click.Option):
    def __init__(self, *names: Any, needs: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.needs = needs


def _long_name(option: click.Option) -> str:
    return next(name for name in option.opts if name.startswith("--"))


class _Once(_Option):
    """Option that may be repeated only if its value is a list of sizes."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            found = (parser._long_opt.get(name) or parser._short_opt.get(name)) if parser else None
            if found is not None:
                found.process = _once(found, self, found.process)


def _once(
    found: Any, option: click.Option, process: Callable[[str, Any], None]
) -> Callable[[str, Any], None]:
    def call(value: str, state: Any) -> None:
        before = state.opts.get(found.dest)
        if before is not None and str(option.metavar or "").endswith(",..."):
            value = f"{before},{value}"
        elif before is not None:
            raise click.UsageError(f"{option.opts[-1]} must not be repeated")
        process(value, state)

    return call


def _as_list(_ctx: click.Context, _param: click.Parameter, given: tuple[Any, ...] | None) -> list[Any] | None:
    return list(given) if given else None


def _type(kind: Any, least: int | None = None, most: int | None = None) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return _OneOf(get_args(kind))
    if issubclass(kind, Enum):
        return _OneOf([one.value for one in kind], kind)
    if kind is Path:
        return click.Path(path_type=Path)
    if kind is int and (least is not None or most is not None):
        return click.IntRange(least, most)
    return click.INT if kind is int else click.STRING
