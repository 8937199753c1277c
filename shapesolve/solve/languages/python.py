"""Python checkers: of input shapes, and of sizes by keyword."""

from __future__ import annotations

import builtins
import keyword

from ...expr.code import Syntax, is_never_zero
from ...expr.grammar import is_plain_name
from ...expr.traverse import atoms_of
from ..program import Define, Identifiers, Program, Templates, lines_of
from .language import INFIX, Language


def _python_name(base: str) -> str:
    plain = base.isidentifier() and not keyword.iskeyword(base) and is_plain_name(base)
    return base if plain else f"size_{base}"


PYTHON = Language(
    syntax=Syntax(
        number="{}",
        divided={"//": "floordiv({}, {})", "%": "mod({}, {})"},
        called={"max": "max({})", "min": "min({})", "abs": "abs({})", "broadcast": "broadcast({})"},
        choice="({1} if {0} else {2})",
        compared=INFIX,
        truth={"true": "True", "false": "False"},
        plain=True,
    ),
    templates=Templates(
        size="    {name} = {value}",
        condition="    {name} = {value}",
        test="    if not ({cond}):\n        broken.append({text})",
        given="    outputs[{name}] = ({sizes})",
        one="{}, ",
        got="str({name})",
        place="shapes[{name}][{axis}]",
        remark="    # {}",
        literal=ascii,
    ),
    identifier=_python_name,
    rank="        {name}: {rank},\n",
    other="        {name},\n",
    around="""\
# Checks the shapes of a model's inputs; written from the model's contract. It needs nothing but Python.


def floordiv(n, d):
    return n // d if d else 0


def mod(n, d):
    return n % d if d else n


def broadcast(*sizes):
    return next((size for size in sizes if size != 1), 1)


def check_inputs(shapes):
    \"\"\"Conditions that shapes of the inputs (name -> sizes) break; when there are none, the model runs.\"\"\"
    ranks = {
@RANKS@    }
    others = [
@OTHERS@    ]
    broken = [f"{name} is no input that is checked" for name in shapes if name not in ranks and name not in others]
    for name, rank in ranks.items():
        if name not in shapes:
            broken.append(f"{name} is missing")
        elif len(shapes[name]) != rank:
            broken.append(f"{name} must have {rank} axes (got {len(shapes[name])})")
        elif any(size < 0 for size in shapes[name]):
            broken.append(f"{name} must not have a negative size (got {min(shapes[name])})")
    if broken:
        return broken
@STEPS@
    return broken
@OUTPUTS@""",
    outputs="""

def refuse(broken):
    if broken:
        raise ValueError("; ".join(broken))


def output_shapes(shapes):
    \"\"\"Shapes of the outputs (name -> sizes) at shapes of the inputs; ValueError where these break conditions.\"\"\"
    refuse(check_inputs(shapes))
    broken, outputs = [], {}
@STEPS@
    refuse(broken)
    return outputs
""",
    suffix=".py",
    taken=frozenset(dir(builtins))
    | {"shapes", "ranks", "others", "broken", "name", "rank", "size", "floordiv", "mod", "broadcast"}
    | {"outputs", "refuse", "check_inputs", "output_shapes"},
)

#: helper functions of the Python function of sizes, by name
_PYTHON_FUNCTIONS = {
    "broadcast": "    def broadcast(*sizes: int) -> int:\n        return next((n for n in sizes if n != 1), 1)\n",
    "floordiv": "    def floordiv(n: int, d: int) -> int:\n        return n // d if d else 0\n",
    "mod": "    def mod(n: int, d: int) -> int:\n        return n % d if d else n\n",
}


def python_source(program: Program, name: str = "check_sizes") -> str:
    """Return a Python function of the program's parameters, passed by keyword.

    Raises:
        ValueError: If `name` is not a valid function name.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not a name for a Python function")
    names = Identifiers(PYTHON.taken, PYTHON.identifier)
    given = [(symbol, names(symbol)) for symbol in program.parameters]
    parameters = ", ".join(f"{identifier}: int" for _, identifier in given)
    lines = [
        f"def {name}({'*, ' if parameters else ''}{parameters}) -> list[str]:",
        '    """Conditions on input sizes that do not hold; when there are none, the model runs."""',
        *(
            f"    # {identifier} is the size {symbol!a}"
            for symbol, identifier in given
            if symbol != identifier
        ),
        *(_PYTHON_FUNCTIONS[function] for function in sorted(_called(program))),
        "    broken = []",
        *lines_of(program, PYTHON.syntax, PYTHON.templates, names),
    ]
    return "\n".join([*lines, "    return broken", ""])


def _called(program: Program) -> set[str]:
    """Names of helper functions that the program's expressions can call."""
    found = set()
    for atom in atoms_of(*(step.dim if isinstance(step, Define) else step.cond for step in program.steps)):
        if atom.kind == "broadcast":
            found.add("broadcast")
        if atom.kind == "//" and not is_never_zero(atom.args[1]):
            found |= {"floordiv", "mod"}
    return found
