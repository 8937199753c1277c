"""The wheel's hot modules as C extensions, where a C compiler is found; their sources stay beside them as they are.

Hatchling loads this file and calls `CompileHook`, which runs the same file as a program that compiles into a folder:

    python .ci/compile_hook.py FOLDER

A module says on its first line that it is compiled (`MARK`).
`SHAPESOLVE_COMPILE=0` leaves compilation out, `SHAPESOLVE_COMPILE=1` makes its failure an error.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
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

#: A compiler reads 450 kB of headers before each file: the C is put together into so many, for the processors to share.
_FILES = 8


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
    """Adds compiled modules to a wheel, or leaves it pure and says why."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; RuntimeError when that fails although SHAPESOLVE_COMPILE=1 asks for it."""
        wanted = os.environ.get("SHAPESOLVE_COMPILE")
        if version == "editable" or wanted == "0":
            return
        self._made = tempfile.TemporaryDirectory(prefix="shapesolve-compiled-")
        folder = Path(self._made.name)
        self._say(
            "shapesolve: compiling with mypyc, about half a minute (SHAPESOLVE_COMPILE=0 leaves it out)"
        )
        # A process of its own: mypyc ends the process on errors, and prints them.
        done = subprocess.run(
            [sys.executable, str(HERE), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            if wanted == "1":
                raise RuntimeError(f"shapesolve could not be compiled\n{done.stdout}")
            last = done.stdout.strip().rpartition("\n")[2]
            why = last if done.returncode > 0 and last else f"exit status {done.returncode}"
            self.app.display_warning(f"shapesolve is installed as pure Python, which is slower: {why}")
            return
        for file in filter(Path.is_file, folder.rglob("*")):
            build_data["force_include"][str(file)] = file.relative_to(folder).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def _say(self, text: str) -> None:
        """To the log of the build, and to the terminal, where there is one: pip shows a log only when the build fails."""
        self.app.display_info(text)
        if sys.stdout.isatty():
            return
        device = os.ctermid() if os.name == "posix" else "CON"
        with contextlib.suppress(OSError), open(device, "w") as terminal:
            terminal.write(f"{text}\n")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has what was compiled."""
        if self._made:
            self._made.cleanup()


def build(extensions: Sequence[Extension], folder: Path, objects: Path) -> None:
    """Compile and link into a folder, as many C files at a time as there are processors."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder), str(objects)
    command.ensure_finalized()
    command.parallel = os.cpu_count() or 1
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


def check_compiler(scratch: Path) -> None:
    """SystemExit if no extension can be built here: known at once, not after the work of mypyc."""
    from setuptools import Extension, errors

    probe = scratch / "probe.c"
    probe.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n", "ascii")
    try:
        build([Extension("probe", [str(probe)])], scratch / "probe", scratch)
    except (errors.BaseError, errors.CompileError, errors.LinkError, OSError) as error:
        sys.exit(f"no C compiler with Python's headers ({error})")


def marked_modules(package: Path) -> list[Path]:
    """The files below `package` that say that they are compiled, in the order of their paths."""

    def first_line(file: Path) -> str:
        with file.open(encoding="utf-8") as lines:
            return lines.readline()

    return sorted(file for file in package.rglob("*.py") if first_line(file) == MARK)


def compile_modules(folder: Path) -> None:
    """Compile the marked modules into `folder`; nothing is left elsewhere."""
    from mypyc.build import mypycify

    os.chdir(HERE.parent.parent)  # paths within the project are what tracebacks show
    modules = marked_modules(Path("shapesolve"))
    if not modules:
        sys.exit("no module is marked as compiled")
    with tempfile.TemporaryDirectory(prefix="shapesolve-c-") as name:
        scratch = Path(name)
        check_compiler(scratch)
        library, *starters = mypycify(
            [*_MYPY, *map(str, modules)],
            opt_level=_OPTIMIZATION,
            debug_level="0",
            multi_file=True,
            target_dir=str(scratch),
            group_name="shapesolve.compiled",  # in the package lies what the modules share, too
        )
        for module in modules:
            name = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
            add_docstrings(scratch / f"__native_{name.replace('.', '___')}.c", module.read_text("utf-8"))
        library.include_dirs.append(str(scratch / "shapesolve"))
        library.sources = put_together(library.sources, scratch)
        layers = different_names(starters)
        for number, layer in enumerate(layers):
            layer[0].sources = [one_for_all(layer, scratch / f"starters_{number}.c")]
        extensions = [library, *(layer[0] for layer in layers)]
        for extension in extensions:
            extension.extra_compile_args.extend(_FLAGS)
        build(extensions, folder, scratch / "objects")
        for first, *others in layers:
            for other in others:
                copy_extension(folder, first.name, other.name)
    check_result(folder)


def put_together(sources: Sequence[str], scratch: Path) -> list[str]:
    """C files of about the same size that include all of the sources."""
    parts: list[list[Path]] = [[] for _ in range(_FILES)]
    sizes = [0] * _FILES
    for source in sorted(map(Path, sources), key=lambda file: (-file.stat().st_size, file.name)):
        smallest = sizes.index(min(sizes))
        parts[smallest].append(source)
        sizes[smallest] += source.stat().st_size
    made = [scratch / f"part_{number}.c" for number in range(_FILES)]
    for file, part in zip(made, parts):
        file.write_text("".join(f'#include "{source.as_posix()}"\n' for source in part), "utf-8")
    return list(map(str, made))


def different_names(starters: Sequence[Extension]) -> list[list[Extension]]:
    """What starts modules, in lists within which the last parts of their names differ."""
    layers: list[dict[str, Extension]] = []
    for starter in starters:
        last = starter.name.rpartition(".")[2]
        layer = next((layer for layer in layers if last not in layer), None)
        if layer is None:
            layers.append(layer := {})
        layer[last] = starter
    return [list(layer.values()) for layer in layers]


def one_for_all(starters: Sequence[Extension], file: Path) -> str:
    """One C file for what starts several modules: Python asks a library for the function with the last part of a name.

    It is compiled and linked once, and copied to where each of the modules is looked for: to do so for each module takes
    a tenth of the whole time.
    """
    text = ""
    for number, starter in enumerate(starters):
        text += f"#define PyInit___init__ unused_{number}\n"  # each has one, for a compiler that asks for it
        text += f'#include "{Path(starter.sources[0]).as_posix()}"\n#undef PyInit___init__\n'
    file.write_text(text, "utf-8")
    return str(file)


def copy_extension(folder: Path, made: str, wanted: str) -> None:
    """Put what was built as the extension `made` where `wanted` is looked for, too."""
    source, target = (folder.joinpath(*name.split(".")) for name in (made, wanted))
    for file in source.parent.glob(f"{source.name}.*"):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target.parent / file.name.replace(source.name, target.name, 1))


def add_docstrings(file: Path, source: str) -> None:
    """Put the docstrings of a module into its C, where mypyc leaves signatures alone: `help()` says what the sources say."""
    text = file.read_text("utf-8")
    tree = ast.parse(source)
    text = _with_docs(
        text, tree.body, r'PyDoc_STR\("{name}(?P<signature>\(.*?\))\\n--\\n\\n"\)(?= /\* docstring)'
    )
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        text = _with_docs(
            text, [node], r'(?<=\.tp_doc = )PyDoc_STR\("{name}(?P<signature>\(.*?\))\\n--\\n\\n"\)'
        )
        for table, entry in _TABLES.items():
            found = re.search(rf"^static {table}\w*___{node.name}_\w+\[\] = {{.*?^}};", text, re.M | re.S)
            if found:
                text = text.replace(found[0], _with_docs(found[0], node.body, entry))
    file.write_text(text, "utf-8")


#: tables of a class in C, and how an entry is written there; the parts that stay have names
_TABLES = {
    "PyMethodDef ": r'PyDoc_STR\("{name}(?P<signature>\(.*?\))\\n--\\n\\n"\)',
    "PyGetSetDef ": r'(?P<start>\{{"{name}",\s*\(getter\)\w+,\s*(?:\(setter\)\w+|NULL),\s*)NULL(?=, NULL\}})',
}


def _with_docs(text: str, nodes: Sequence[ast.stmt], entry: str) -> str:
    """`text` with the docstrings of functions and classes in the entries that are theirs."""
    for node in nodes:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        doc = ast.get_docstring(node)
        if not doc:
            continue
        name = node.name

        def written(found: re.Match[str], doc: str = doc, name: str = name) -> str:
            parts = found.groupdict()
            head = f"{name}{parts['signature']}\\n--\\n\\n" if "signature" in parts else ""
            return f'{parts.get("start", "")}PyDoc_STR("{head}{_quoted(doc)}")'

        text = re.sub(entry.format(name=re.escape(name)), written, text)
    return text


def _quoted(text: str) -> str:
    """Text within a literal of C, in parts that every compiler takes."""
    plain = set(range(32, 127)) - set(b'"?\\')
    lines = text.encode().splitlines(keepends=True)
    return '"\n"'.join("".join(chr(b) if b in plain else f"\\{b:03o}" for b in line) for line in lines)


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
