"""The wheel's hot modules as C extensions, if SHAPESOLVE_COMPILE=1; their sources stay beside them as they are.

Hatchling loads this file and calls `CompileHook`, which runs the same file as a program that compiles into a folder:

    python .ci/compile_hook.py FOLDER

A module says on its first line that it is compiled (`MARK`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from setuptools import Extension

HERE = Path(__file__).resolve()

#: the first line of a module that is compiled: one that most analyses spend time in
MARK = "# compiled: see CONTRIBUTING.md\n"

#: what compiling needs, and a plain build does not
_NEEDS = "mypy[mypyc]==2.4.1"

#: The C code is the same, whatever else is installed: mypy sees no types but those of shapesolve. Whether the sources
#: fit the types of other packages is checked where these are present, not here.
_MYPY = (
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    f"--cache-dir={os.devnull}",
)
#: Analyses are 2 % slower than with -O3, and the build takes two thirds of its time. With -Og analyses
#: take about a third more: nearly as long as without compiling.
_OPTIMIZATION = "1"

#: Looking for warnings takes a tenth of the compiler's time, and nobody reads them. What only this library calls need not
#: be looked up when it is called: analyses are 2 % faster for it.
_FLAGS = ["-w", "-Wno-all", "-fvisibility=hidden"] if os.name == "posix" else []

#: What other versions of Python or of the compiler might do otherwise is tried before a wheel carries it.
_TRIAL = """
from shapesolve.expr import Dim, core, pool
assert not core.__file__.endswith(".py"), core.__file__
size = Dim("a + b//2")
assert size is Dim("b//2 + a") and size.evaluate({"a": 1, "b": 4}) == 3 and size.subs({"a": 1, "b": 4}) == 3
assert list(range(Dim(2))) == [0, 1] and Dim(7) is size.subs({"a": 7, "b": 0})
Dim("unused")
pool.drop_unused()
assert size is Dim("a + b//2") and "unused" not in [d.name for d in core._DIMS.settled.values()]
"""


class CompileHook(BuildHookInterface[Any]):
    """Adds compiled modules to a wheel if SHAPESOLVE_COMPILE=1."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _wanted(self) -> bool:
        return os.environ.get("SHAPESOLVE_COMPILE") == "1"

    def dependencies(self) -> list[str]:
        """Mypy, if it has something to compile."""
        return [_NEEDS] if self._wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; RuntimeError if that fails."""
        if version == "editable" or not self._wanted:
            return
        self._made = tempfile.TemporaryDirectory(prefix="shapesolve-compiled-")
        folder = Path(self._made.name)
        # A process of its own: mypyc ends the process on errors, and prints them, after warnings that nobody can heed.
        done = subprocess.run([sys.executable, str(HERE), str(folder)], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if ": warning: " not in line]
            hint = "shapesolve could not be compiled; without SHAPESOLVE_COMPILE=1, it is installed as plain Python"
            raise RuntimeError("\n".join([hint, *said]))
        for file in filter(Path.is_file, folder.rglob("*")):
            build_data["force_include"][str(file)] = file.relative_to(folder).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has what was compiled."""
        if self._made:
            self._made.cleanup()


def say(text: str) -> None:
    """A line of the build's log, at once: `pip install -v` shows it, as other build tools do."""
    print(f"shapesolve: {text}", file=sys.stderr, flush=True)


def marked_modules(package: Path) -> list[Path]:
    """The files below `package` that say that they are compiled, in the order of their paths."""

    def first_line(file: Path) -> str:
        with file.open(encoding="utf-8") as lines:
            return lines.readline()

    return sorted(file for file in package.rglob("*.py") if first_line(file) == MARK)


def build(extensions: Sequence[Extension], folder: Path, objects: Path) -> None:
    """Compile and link into a folder, as many C files at a time as there are processors."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder), str(objects)
    command.ensure_finalized()
    build_all = command.build_extensions

    def build_in_parallel() -> None:
        # setuptools builds whole extensions at the same time at best, and nearly all C is in one of them
        compile_all = command.compiler.compile

        def compile_each(sources: list[str], *args: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = pool.map(lambda source: compile_all([source], *args, **options), sources)
                return [file for files in made for file in files]

        command.compiler.compile = compile_each
        build_all()

    command.build_extensions = build_in_parallel
    command.run()


def compile_modules(folder: Path) -> None:
    """Compile the marked modules into `folder`; nothing is left elsewhere."""
    from mypyc.build import mypycify

    os.chdir(HERE.parent.parent)  # paths within the project are what tracebacks show
    modules = marked_modules(Path("shapesolve"))
    if not modules:
        sys.exit("no module is marked as compiled")
    start = time.monotonic()
    say(
        f"compiling {len(modules)} modules takes about two minutes of processor time; mypyc translates them first"
    )
    with tempfile.TemporaryDirectory(prefix="shapesolve-c-") as name:
        extensions = mypycify(
            [*_MYPY, *map(str, modules)],
            opt_level=_OPTIMIZATION,
            debug_level="0",
            multi_file=True,
            target_dir=name,
            group_name="shapesolve.compiled",  # in the package lies what the modules share, too
        )
        extensions[0].include_dirs.append(f"{name}/shapesolve")
        for extension in extensions:
            extension.extra_compile_args.extend(_FLAGS)
        files = sum(len(extension.sources) for extension in extensions)
        say(
            f"after {time.monotonic() - start:.0f} s, {files} files of C are compiled on {os.cpu_count()} processors"
        )
        build(extensions, folder, Path(name, "objects"))
    check_result(folder)
    say(f"compiled and tried after {time.monotonic() - start:.0f} s")


def check_result(folder: Path) -> None:
    """SystemExit if what was compiled does not work as its sources do."""
    with tempfile.TemporaryDirectory(prefix="shapesolve-trial-") as name:
        shutil.copytree("shapesolve", Path(name, "shapesolve"), ignore=shutil.ignore_patterns("frontend"))
        shutil.copytree(folder, name, dirs_exist_ok=True)
        done = subprocess.run([sys.executable, "-c", _TRIAL], cwd=name, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"what was compiled fails its trial: {done.stderr.strip() or done.returncode}")


if __name__ == "__main__":
    compile_modules(Path(sys.argv[1]).resolve())
