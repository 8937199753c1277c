"""Generated checkers, compiled or loaded where there is a compiler, and asked for what input shapes break."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import shapesolve as ss
from shapesolve.deploy.sizes import NoSizes, Sizes
from shapesolve.solve.languages.cpp import CPP
from shapesolve.solve.languages.python import PYTHON
from shapesolve.solve.program import Program

Shapes = Mapping[str, Sequence[int]]
#: per program, the shapes that it is asked about
Asked = Sequence[Sequence[Shapes]]
#: per program and shapes, what is broken
Answers = list[list[list[str]]]
#: what checks the inputs, and what computes the shapes of outputs
Pair = tuple[Program, Program | None]

_UNFIT = " (a number does not fit in 64 bits)"

_CPP_MAIN = """
#include <iostream>
#include <sstream>
int main() {
    std::string line, part, size;
    while (std::getline(std::cin, line)) {
        std::istringstream parts(line);
        std::getline(parts, part, ';');
        const int number = std::stoi(part);
        std::map<std::string, std::vector<std::int64_t>> shapes;
        while (std::getline(parts, part, ';')) {
            std::istringstream sizes(part);
            std::getline(sizes, size, ',');
            std::vector<std::int64_t>& shape = shapes[names.at(std::stoi(size))];
            while (std::getline(sizes, size, ',')) shape.push_back(std::stoll(size));
        }
        std::vector<std::string> broken;
        switch (number) {
@CASES@
        }
        for (const auto& text : broken) std::cout << text << '\\x1e';
        std::cout << '\\x1d';
    }
}
"""
_CPP_OUTPUTS = """try {
    for (const auto& one : g@K@::checked::output_shapes(shapes)) {
        broken.push_back(one.first + "=");
        for (const auto n : one.second) broken.back() += (broken.back().back() == '=' ? "" : ",") + std::to_string(n);
    }
} catch (const std::invalid_argument& error) {
    broken = {std::string("invalid_argument: ") + error.what()};
} break;"""


def compiler() -> str | None:
    """The C++ compiler of this machine."""
    return next((found for tool in ("g++", "c++", "clang++") if (found := shutil.which(tool))), None)


_RUN = {
    "python": lambda *given: _python(*given),
    "cpp": lambda *given: _cpp(*given),
}


def answers_of(language: str, programs: Sequence[Program], asked: Asked, folder: Path) -> Answers:
    """The conditions that the checkers of a language call broken, without the sizes that they got."""
    found = _RUN[language]([(program, None) for program in programs], asked, folder)
    return [[[_without_sizes(text) for text in texts] for texts in one] for one in found]


def outputs_of(language: str, programs: Sequence[Pair], asked: Asked, folder: Path) -> Answers:
    """Shapes of outputs as ``name=2,3`` in the order of names, or the error, by the functions of a language."""
    return [[sorted(texts) for texts in one] for one in _RUN[language](programs, asked, folder)]


def _without_sizes(text: str) -> str:
    head, _, tail = text.partition(" (got ")
    return head + (_UNFIT if _UNFIT in tail else "")


def _python(programs: Sequence[Pair], asked: Asked, folder: Path) -> Answers:
    found = []
    for pair, shapes in zip(programs, asked, strict=True):
        space: dict[str, Any] = {}
        exec(PYTHON.source(*pair), space)  # noqa: S102  (the point of the test: the text is a working function)
        found.append(
            [_shown(space["output_shapes"], s) if pair[1] else space["check_inputs"](s) for s in shapes]
        )
    return found


def _shown(output_shapes: Callable[[Shapes], Shapes], shapes: Shapes) -> list[str]:
    try:
        return [f"{name}={','.join(map(str, shape))}" for name, shape in output_shapes(shapes).items()]
    except ValueError as e:
        return [f"ValueError: {e}"]


def _cpp(programs: Sequence[Pair], asked: Asked, folder: Path) -> Answers:
    names = _names(asked)
    standard = [line for line in CPP.around.splitlines() if line.startswith("#include")]
    lines = [*standard]
    for k, pair in enumerate(programs):
        # compilers take files of the same text for one that is included once
        (folder / f"g{k}.hpp").write_text(f"// guard {k}\n{CPP.source(*pair)}", "utf-8")
        lines.append(f'namespace g{k} {{\n#include "g{k}.hpp"\n}}')
    literals = ", ".join(CPP.templates.literal(n) for n in names)
    lines.append(
        f"using namespace std::string_literals;\nconst std::vector<std::string> names = {{{literals}}};"
    )
    checks = "broken = g@K@::checked::check_inputs(shapes); break;"
    cases = [
        f"case {k}: " + (_CPP_OUTPUTS if outputs else checks).replace("@K@", str(k))
        for k, (_, outputs) in enumerate(programs)
    ]
    lines.append(_CPP_MAIN.replace("@CASES@", "\n".join(cases)))
    (folder / "main.cpp").write_text("\n".join(lines), "utf-8")
    program_file = folder / "cpp_guards"
    options = [
        "-std=c++14",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=undefined",
        "-fno-sanitize-recover",
    ]
    _run([str(compiler()), *options, str(folder / "main.cpp"), "-o", str(program_file)])
    return _asked(program_file, asked, names)


def _names(asked: Asked) -> list[str]:
    return list(dict.fromkeys(name for shapes in asked for one in shapes for name in one))


def _asked(program: Path, asked: Asked, names: list[str]) -> Answers:
    lines = []
    for k, shapes in enumerate(asked):
        for one in shapes:
            lines.append(
                ";".join([str(k), *(",".join(map(str, [names.index(n), *s])) for n, s in one.items())])
            )
    records = _run([str(program)], "\n".join(lines) + "\n").split("\x1d")[:-1]
    texts = iter([record.split("\x1e")[:-1] for record in records])
    return [[next(texts) for _ in shapes] for shapes in asked]


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout.decode()


_PALETTE = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 33, 64, 224)


def drawn_shapes(
    a: ss.Analysis, rng: Random, count: int, accepted: dict[str, int] | None = None
) -> list[dict[str, tuple[int, ...]]]:
    """Shapes near to accepted ones, changed in one or two places or in none, and some of any sizes."""
    question = Sizes(a)
    bases = [] if accepted is None else [accepted]
    for _ in range(0 if bases else max(3, count // 40)):
        try:
            bases.append(question.drawn(rng))
        except NoSizes:
            break
    out: list[dict[str, tuple[int, ...]]] = []
    while len(out) < count:
        sizes = dict(rng.choice(bases)) if bases and rng.random() < 0.8 else {}
        sizes = {n: sizes.get(n, rng.choice(_PALETTE)) for n in question.names}
        for name in rng.sample(question.names, min(len(question.names), rng.choice((0, 0, 1, 2)))):
            sizes[name] = _moved(sizes[name], rng)
        shapes = question.shapes(sizes)
        if shapes is None:
            continue
        if rng.random() < 0.3 and any(shapes.values()):
            name = rng.choice([n for n, s in shapes.items() if s])
            axis = rng.randrange(len(shapes[name]))
            shape = list(shapes[name])
            shape[axis] = _moved(shape[axis], rng)
            shapes[name] = tuple(shape if rng.random() < 0.9 else shape[1:])
        out.append(shapes)
    return out


def _moved(size: int, rng: Random) -> int:
    return max(0, rng.choice((size + 1, size - 1, 0, 1, 2 * size, rng.choice(_PALETTE))))
