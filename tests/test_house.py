"""The size and order of the package: counts whose ceilings only fall. Lower a ceiling where a change allows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import onnx.defs

import shapesolve

PACKAGE = Path(shapesolve.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: most lines of a file, which is read in one sitting
MAX_FILE = 450
#: numbers with a name at the top of a module
MAX_CONSTANTS = 196
#: numbers with a name that limit nothing: they stand outside of the tables
NO_LIMITS = {
    "expr/grammar.py CHOICE": "precedence of an operator",
    "report/json.py VERSION": "version of a layout",
    "lines.py GAP": "blanks between columns",
    "solve/sizes.py DISTINCT": "sizes to start from",
    "solve/sizes.py LIKELY": "sizes to draw from",
}
#: files that are the table of limits of a room; that of `solve` stands in `solve/facts`
TABLES = ("limits.py", "budget.py")
#: files outside of `operators` that name operators in texts, and why
NAMING = {
    "change/arithmetic.py": "rewrites the arithmetic of shapes",
    "change/simplify/constants.py": "computes operators that IEEE 754 defines",
    "change/simplify/layouts.py": "rewrites nodes that move data",
    "change/simplify/neutral.py": "rewrites nodes that do nothing",
    "change/simplify/rules.py": "names the operators that each rule of simplify is tried on",
    "change/simplify/sizes.py": "writes the arithmetic of shapes",
    "change/simplify/views.py": "rewrites chains of views",
    "deploy/guards/graph.py": "writes the nodes of a checker",
    "change/free/mending.py": "writes shape arithmetic",
    "change/generalize/tables.py": "writes tables",
    "change/generalize/program.py": "runs the shape arithmetic that it writes",
    "causes/edits.py": "writes a Transpose or an Unsqueeze more",
    "expr/grammar.py": "functions of a language of that name",
    "lower/__init__.py": "a class of that name",
    "lower/semantics.py": "differences between onnxruntime and the standard",
}
#: functions that make a node, and the argument that is its operator
MAKES = {"op": 0, "node": 0, "make_node": 0, "insert": 0, "new_node": 0, "become": 1}
#: nodes that are inserted, and what marks where a file keeps its constants: not facts about an operator
STRUCTURE = frozenset(
    ("Constant", "Identity", "Shape", "If", "Loop", "Scan", "Cast", "Min", "Max", "Not", "And", "Or", "Add")
)


#: makers of the sentence of a broken condition, and the files that call them
WORDERS = {
    "Rejected": {"answers/rejected.py", "answers/violation.py"},
    "sentence_of": {"answers/outside.py", "answers/rejected.py", "answers/violation.py"},
    "requirement_text": {"answers/rejected.py", "findings/limits.py", "findings/restriction.py"},
}


def test_every_file_is_read_in_one_sitting() -> None:
    long = {
        str(f.relative_to(PACKAGE)): n
        for f in FILES
        if (n := len(f.read_text("utf-8").splitlines())) > MAX_FILE
    }
    assert not long


def constants(tree: ast.Module) -> Iterator[str]:
    """Names at the top of a module that stand for numbers, or for tuples of numbers; each name of a tuple of names."""
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        value = getattr(node, "value", None)
        if targets and value is not None and is_number(value):
            yield from (
                name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def all_constants() -> list[str]:
    """The file and the name of each number with a name."""
    return [f"{f.relative_to(PACKAGE).as_posix()} {name}" for f in FILES for name in constants(parsed(f))]


def test_each_name_of_a_tuple_is_a_constant() -> None:
    assert [*constants(ast.parse("A, (B, C) = 1, (2, -3)\nD: Final = 1 << 2, 3\nE, F = 1, A"))] == [*"ABCD"]


def test_numeric_constants_become_fewer_and_limits_stand_in_the_table_of_their_room() -> None:
    found = all_constants()
    assert len(found) <= MAX_CONSTANTS, len(found)
    outside = {name for name in found if name.split()[0].rpartition("/")[2] not in TABLES}
    assert outside == NO_LIMITS.keys()


def test_limits_have_a_quantity_and_a_unit() -> None:
    for table in (f for f in FILES if f.name in TABLES):
        lines = table.read_text("utf-8").splitlines()
        assert not [text for text in lines if re.match(r"[A-Z]\w*(: Final)? = ", text) and "  # " not in text]


def operator_names() -> frozenset[str]:
    return frozenset(s.name for s in onnx.defs.get_all_schemas()) - STRUCTURE


def named_in(tree: ast.Module, names: frozenset[str]) -> int:
    """Texts that are the name of an operator; docstrings are none, nor is the operator of a node that is made."""
    made = {
        id(n.args[k])
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in MAKES
        for k in range(min(len(n.args), MAKES[n.func.attr] + 1))
    }
    texts = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in made)
    return sum(isinstance(n.value, str) and n.value in names for n in texts)


def test_facts_about_operators_stand_on_their_declarations() -> None:
    names = operator_names()
    found = {
        str(f.relative_to(PACKAGE))
        for f in FILES
        if f.relative_to(PACKAGE).parts[0] != "operators" and named_in(parsed(f), names)
    }
    assert found == NAMING.keys()


def test_models_are_run_and_compared_in_one_place() -> None:
    """One session, and one table of what rounding explains."""
    words = re.compile(r"\b(InferenceSession|allclose|isclose)\(")
    found = {str(f.relative_to(PACKAGE)) for f in FILES if words.search(f.read_text("utf-8"))}
    assert found == {"runs.py"}


#: files outside solve that make an engine, rather than ask what a lowered model has
ENGINES = [
    "answers/solved",
    "answers/violation",
    "causes/conflict",
    "constraints/cores",
    "torch/verdicts",
]


def test_whether_conditions_contradict_each_other_is_asked_of_known() -> None:
    """Outside solve a room asks what follows, what is refuted, or for sizes; none decides by the solver's three answers."""
    outside = {f.relative_to(PACKAGE).with_suffix("").as_posix(): f.read_text("utf-8") for f in FILES}
    outside = {name: text for name, text in outside.items() if not name.startswith("solve/")}
    assert sorted(name for name, text in outside.items() if re.search(r"\bEngine\(", text)) == ENGINES
    asks = re.compile(r"\bsatisfiable\(|\.unsat\b")
    assert not [name for name, text in outside.items() if asks.search(text)]


#: methods in solve that say whether conditions follow or hold together, and why each is one of its own
WAYS = {
    "facts/facts Facts.decide": "what facts alone derive, without a search: a lowering asks nothing else",
    "facts/residual Residue.certain": "which broadcasts the engine may take as legal",
    "periods Regular.same": "two lists of conditions on one symbol, by a table that covers a period",
    "engine Engine.satisfiable": "sizes, a contradiction, or neither: the question that all others come down to",
    "engine Engine.entails": "a proof or a counterexample, within a budget",
    "known Known.decided": "the facts of conditions that come and go",
    "known Known.follows": "what a contract may leave out, also at sizes that do not broadcast",
    "known Known.refuted": "what can't hold beside the conditions",
    "proof Prover.follows": "what every input of a model satisfies",
    "proof Prover.prove": "the same with assumptions and a core",
    "proof Prover.refuted": "the same as sizes that break it",
}


def answered(tree: ast.Module) -> Iterator[str]:
    """Methods of public classes that take a condition and return a truth."""
    answers = {"bool", "bool | None", "Verdict", "Answer", "Proof", "Refuted | None"}
    for c in (n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")):
        for f in (n for n in c.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")):
            first = [*f.args.args[1:2], *filter(None, [f.args.vararg])][:1]
            asked = [ast.unparse(a.annotation) for a in first if a.annotation is not None]
            if f.returns is not None and ast.unparse(f.returns) in answers and "Cond" in "".join(asked):
                yield f"{c.name}.{f.name}"


def test_few_methods_say_whether_a_condition_follows() -> None:
    stored = {"Facts.assume", "Known.was_last"}  # they change what is known, or ask for its order
    files = {
        f.relative_to(PACKAGE / "solve").with_suffix("").as_posix(): f for f in FILES if "solve" in f.parts
    }
    found = {f"{name} {way}" for name, f in files.items() for way in answered(parsed(f)) if way not in stored}
    assert found == WAYS.keys()


def calls(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for n in ast.walk(tree)
    )


def test_a_broken_condition_is_worded_in_one_file() -> None:
    """Only the checker of inputs makes a `Rejected` besides; no room above the answers writes the sentence of a condition."""
    found = {name: {str(f.relative_to(PACKAGE)) for f in FILES if calls(parsed(f), name)} for name in WORDERS}
    assert found == WORDERS


#: what a lowering has besides its state: what is asked of it, where it is, and counts that a trial does not give back
BESIDES_STATE = {
    "lower/statements.py": {"facts", "interner", "request", "scope", "state"},
    "lower/scopes.py": {"expandable", "model", "operators", "standard"},
    "lower/walk.py": {"_depth", "is_stopped", "observe", "progress", "stop"},
}


def test_the_state_of_a_lowering_says_all_of_itself() -> None:
    """What a trial rolls back or shares is in `LoweringState`, whose `fork` says which."""
    for name, expected in BESIDES_STATE.items():
        walks = (n for n in parsed(PACKAGE / name).body if isinstance(n, ast.ClassDef))
        starts = {n.name: n.body for n in walks if n.name in ("Statements", "Scopes", "Walk")}
        [body] = starts.values()
        [init] = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        targets = (n for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
        assert {n.attr for n in targets} == expected, name
