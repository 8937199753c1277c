"""Unidiomatic English in messages, docstrings, comments and pages: `python -m tests.english` lists the places.

A hit is a place to rewrite, with the natural form. Generated pages are left out: their words come from messages and docstrings.
"""

import ast
import io
import pathlib
import re
import tokenize
from typing import NamedTuple

GENERATED = ("docs/cli/", "docs/contracts.md", "docs/json.md", "docs/operators.md")
ALL = "message docstring comment doc"


class Text(NamedTuple):
    """A piece of prose and where it is. Interpolated values of an f-string are written as ``{…}``."""

    kind: str
    path: str
    line: int
    text: str


class Tic(NamedTuple):
    """A pattern, the kinds of text it applies to, and the natural form."""

    pattern: re.Pattern
    better: str
    kinds: str = ALL


def tic(pattern, better, kinds=ALL, flags=re.I):
    return Tic(re.compile(pattern, flags), better, kinds)


TICS = {
    # ------------------------------------------------------------------ sentence structure
    "got": tic(
        r"(must|needs?|takes?|expects?)\b[^.;:]*, (it|they) (is|are|has|have|holds?|gets?)\b|, here it has\b|\b(must|needs?)\b[^.;:]*, but (it|they|\{…\}) (is|are|has|have)\b|\bbut it is (\{|$)",
        "expected A, got B",
    ),
    "splice": tic(
        r"^(?!.*\b(if|when|where|as|since|once|while|unless|though|although|because|whether|until|for|in|with|at|before|after|to|instead|unlike|by)\b[^,]*, it)(?!.*\b(must|needs?|takes?|expects?)\b.*, it)[^(]*\w, (it|they) (is|are|has|have|cannot|must|may|does|will)\b",
        "two sentences, or a semicolon",
        "message docstring comment",
    ),
    "what-clause": tic(
        r"\b(of|by|with|to|in|from|for|at|than|on|beside|and|or|but|not|only|after|into|without) what (is|are|was|were|has|have|comes|follows|stands|goes|differs|moves|reads|makes|needs|came|becomes|remains|stays|holds|replaces|data|it|they) |(?<=[.:;,] )what (is|are|was|has|comes|follows|goes|stays|remains) (?![^.]*\?)|^what (is|are|was|has|comes|follows|goes|stays|remains)\b(?=.*[a-z]{3}.*[.,] ?)",
        "a noun: 'what is stored' -> 'the stored value'",
    ),
    "who-clause": tic(
        r"\b(nobody|somebody)\b|\bwho (reads|imports|tries|calls|asks) ",
        "name the actor: 'no other node reads it'",
    ),
    "none-where": tic(r"(?<!never )\b(None|True|False|empty) where\b", "None if ..."),
    "where-if": tic(
        r"(?<!know )(?<!shows )(?<!show )(?<!says )(?<!from )(?<!is )(?<!None )(?<!True )\bwhere (there (is|are)|it (is|does|has|can|cannot|follows|trains)|they (are|do|can|have)|nothing|none|no|that (is|helps|would|was)|data|only|all|both|the file (is|has|states|declares)|the batch|sizes)\b",
        "if / when",
    ),
    "of-which": tic(r"\bof (which|whom)\b", "start a new sentence, or 'whose' / 'including'"),
    "that-of": tic(
        r"(?<!like )(?<!than )\b(that|those) of\b(?! course)", "repeat the noun, or use 's: 'the input's'"
    ),
    "of-chain": tic(
        r"\bof (?:(?:the|a|an|its|their|each|all|one|two|this|that|these|any) )?[\w-]+ of (?:(?:the|a|an|its|their|each|all|one|two|this|that|these|any) )?[\w-]+ of\b",
        "a compound noun: 'input shape dims'",
    ),
    "else": tic(
        r"(?:^|(?<=[.;:] ))(?:(?!\bif\b|[.;:] ).)*?(?:[,;] |and )else\b(?! if|`|:)|[.:] else\b(?! if)|; else\b(?! if)",
        "otherwise",
    ),
    "as-far-as": tic(r"\bas far as\b(?! I| we)", "where / to the extent that"),
    "postposed-only": tic(r"(?<!read-)(?<!read)\bonly(?=[.;:)]|$)", "put 'only' before the word it limits"),
    "by-no": tic(r"\bby no (?!means)\w+|\bat no \w+", "negate the verb: 'no node reads it'"),
    "is-no": tic(
        r"(?<!there )\b(is|are|was|were|be) no (?!longer|more\b|less|greater|larger|smaller|other|one\b|such|need|way|reason|point|guarantee|effect|conflict|counterexample|rule|graph)\w+",
        "is not a",
    ),
    "is-so": tic(r"\b(is|are|be|was|were) (not )?so\b(?=[.,;:]| at| for|$)", "is true / holds"),
    "is-there": tic(
        r"(?<!what )(?<!where )\b(is|are|was|were) (not )?there( already| anyway)?(?=[.,;:)]| exactly|$)|\b(is|are) there already",
        "exists / is missing",
    ),
    "as-it-is": tic(
        r"\b(stays?|stay|gives|taken|kept|accepted) as (it|they) (is|are|was|were)\b", "unchanged / as is"
    ),
    "that-were": tic(
        r"\b(sizes?|numbers?|values?|ones?|dims?|shapes?|terms?|nodes?|tensors?) that (was|were) (seen|tried|found|wanted|left|added|made|drawn|shown|given|measured)\b",
        "a participle: 'the observed sizes'",
    ),
    "restated": tic(
        r"(?<=\. )That (is|becomes|means|holds|comes)\b(?!,? not)",
        "delete the repetition, or merge the sentences",
        "docstring",
    ),
    "arg-of": tic(
        r"(?<=[a-z_]: )of (the|`x`|a|an|its|that|these|this|all|each|names|what)\b",
        "a full noun phrase: 'seed: seed of the random generator'",
        "docstring",
    ),
    "headless": tic(
        r"^(of|which|what|where|whose|else|so that|from which|by which|with which|in which|by way|that (is|are|was))\b",
        "a sentence with a subject, or no comment",
        "comment",
    ),
    "none-subject": tic(r"(?<![`\w] )\bnone (is|are|was|were|has|have|does|fits)\b", "no X is ..."),
    "made-of": tic(
        r"\b(is|are|be|was|were|been) made of\b|\bwhat to make of\b|\bmake one \w+ \w+ of\b",
        "made from / consists of / computed from",
    ),
    "keep-to": tic(r"\b(keeps?|kept) to (?!a |the (left|right)|be )", "satisfy / comply with"),
    # ------------------------------------------------------------------ words
    "not-known": tic(
        r"\b(is|are|was|be|were) not known\b(?! to)|nothing is known\b|\bare not known\b", "unknown"
    ),
    "none-of": tic(r"\bis none of (?!them|these|those|its)", "must be one of"),
    "there-are": tic(
        r"\bthere (is|are) no [^.]*; there (is|are)\b|\(there are \{|; there are none",
        "unknown X; expected one of A, B",
        "message",
    ),
    "there-must-be": tic(r"\bthere must be\b", "expected one X per Y", "message docstring doc"),
    "must-fit": tic(
        r"\bmust fit\b|\bdo(es)? not fit\b|\bcannot fit\b",
        "say the sizes: 'must have shape [N, C]'",
        "message",
    ),
    "must-agree": tic(
        r"(?<!inner sizes of a matrix product )\bmust agree\b",
        "must be equal / must have the same shape",
        "message docstring",
    ),
    "must-hold": tic(
        r"\bmust hold (a|an|each|all|the|three|whole|latent|0|\{…\}|\d|at least|one)\b",
        "must contain / must have N elements",
        "message",
    ),
    "is-needed": tic(r"(\}|\d) is needed\b(?! by| to| for| at)", "X must be ...", "message"),
    "one-same": tic(
        r"\bof one (rank|size|shape|name|type|batch|length|form)\b|\b(have|has) one (rank|shape|name|type|batch|length|form)\b",
        "the same X",
    ),
    "tell": tic(
        r"\b(is|are|be|was|were|been) (not )?told\b|\btells? of\b|\btold (of|apart)\b|\b(code|node|file|name|dots|schema|no rule) tells?\b|\btells? (its|the size|the rank|all)\b",
        "report / show / specify",
    ),
    "stated": tic(r"\bstated\b", "declared / given / specified"),
    "text": tic(
        r"\bas a text\b|\btexts\b|\bno text\b|\b(a|one) text (that|of|without|from|by|beyond|to|is)\b",
        "string",
        "message docstring",
    ),
    "taken-as": tic(
        r"\b(is|are|be|was|were|been) taken (as|to be|for(?! granted| compat)|not to)\b",
        "is assumed to be / is treated as",
    ),
    "open": tic(
        r"\b(is|are|stay|stays|left|leaves?|leave|still) open\b(?! (in|the|a)\b)|\bleaves? (?!a question)[^.,;]{1,40} open\b",
        "undecided / ambiguous",
    ),
    "followed": tic(
        r"\b(is|are|be|only|been|could not be|cannot be|were) followed\b(?! (by|in turn|backwards))|\bnot followed\b",
        "modeled / tracked / supported",
    ),
    "decided": tic(
        r"\b(data|sizes|inputs) (alone )?(decides?|does not decide|do not decide)\b|\bdecided by data\b|\bnot decided\b",
        "depends on data / undecided",
    ),
    "of-own": tic(r"\bof (its|their|your|our|my) own\b", "separate / custom / its own X"),
    "stand-lie": tic(
        r"\b(stands?|stood) (in(?! the way)|at|there|within|beside|behind|first|where|against|around|outside)\b|\b(lies?|lay) (there|where|beside|at the)\b",
        "is / appears / is stored",
    ),
    "beside": tic(r"\bbeside (?!the (model|graph|file)|it\b)|\bbesides\b", "in addition to / next to / with"),
    "behind": tic(r"(?<!the )\bbehind (?!the scenes)", "after / caused by"),
    "mend": tic(r"\bmend(s|ed|ing)?\b", "fix"),
    "meant": tic(r"\b(is|are|be|not|was) meant\b(?! (for|to))", "intended"),
    "apart": tic(
        r"\brows?\b(?![^.;]*\btell)[^.;]{0,40}\bapart\b(?! from)|\bnodes apart$|\bkept apart\b",
        "independent / separate",
    ),
    "usual": tic(r"\busual\b(?! way)", "typical / optimum (profiles)"),
    "least-greatest": tic(
        r"(?<!at )\b(least|greatest)\b(?! (one|some|common|recently|squares|upper|significant|general|fixed))",
        "minimum / maximum / smallest / largest",
    ),
    "all-the-same": tic(
        r"\b(accepted|refused|run|runs|fail|export|fit|takes? it|there|for it) all the same\b",
        "anyway / still",
    ),
    "further": tic(
        r"\ba further\b|\banew\b|\bheld against\b|\blikewise\b", "another / again / checked against / also"
    ),
    "no-more": tic(
        r"\b(inputs|fails?|is) no more(?=[.,;:)]|$| with)|\bany more\b(?! than)(?=[.,;:)]|$)", "no longer"
    ),
    "worked-out": tic(r"\bwork(s|ed)? out\b", "compute"),
    "asks-for": tic(r"\basks? for\b", "requires / expects", "message"),
    "due": tic(r"\b(is|was|are) due\b(?! to)", "expected"),
    "went": tic(
        r"\b(nodes?|that|it|they) (goes|went)\b(?=[,.]|$| and| or| with)|\bShape arithmetic goes\b|\bwhy (a|each) node went\b",
        "is removed",
    ),
    "from-on": tic(
        r"\bfrom (?!here|then|now|there|it)(?:opset |version |size )?(?:\d+|\{…\}|the \w+|\w+) on\b(?! the| a\b| which| top| demand)|\bfrom which on\b",
        "starting with / N and later",
    ),
    "in-sizes": tic(
        r"\bin the (input )?sizes\b|\bin input sizes\b|(?<=[,a-z]) in words\b",
        "as a formula in the input sizes",
    ),
    "sizes-at-which": tic(r"\bsizes? (at|with|by|in) which\b", "sizes for which / that"),
    "of-user": tic(r"\bof (the|an?) (user|author|caller)\b", "your / the user's"),
    "nothing-but": tic(r"\bnothing but\b|\bno \w+ but (a|an|the|those)\b|\bnone but\b", "only"),
    "place": tic(
        r"\b(each|a) place (of|in|for)\b|\bplaces (of|in|for) (?!the)", "position / index / location"
    ),
    "says": tic(
        r"\bsays? (nothing|more|less)\b|\bwhat it says\b|\bsaid of\b|\bspeaks? of\b",
        "shows / reports / describes",
    ),
    "sort-kin": tic(
        r"\b(two|three|four|five|\d) sorts of\b|\bits kin\b|\band its like\b", "kinds of / related operators"
    ),
    "trip": tic(r"\btrips?\b(?! count)", "iteration"),
    "people": tic(r"\bpeople\b", "display name / readable"),
    "judge": tic(r"\bjudg(e|es|ed|ing)\b", "check / decide / evaluate"),
    "rooms": tic(r"\brooms\b|\b(this|every|each|a|the report|the) room\b", "package / layer"),
    "question": tic(r"\bquestions?\b(?! mark)", "query", "docstring comment"),
    "to-be": tic(r"\b(is|are|was|were) to be\b", "must be / should be"),
    "clause-summary": tic(
        r"^(what|how|why|whose|whether|where|which|who|is|are|does|do|may|can|has|have)\b",
        "a noun phrase or an imperative",
        "docstring",
    ),
}


def code_like(text):
    return bool(
        re.search(r"[;{]\n|\bdef \w+\(|^\s*<|xmlns|function \w+\(|->|const |=>|\(assert", text)
    ) or not re.search(r"[a-z]{3,} [a-z({]", text)


def flat(node):
    """Return the string of a literal, f-string or concatenation, or None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{…}" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = flat(node.left), flat(node.right)
        return None if left is None or right is None else left + right
    return None


def python_texts(path, name):
    source = path.read_text(encoding="utf-8")
    found = []

    def walk(node):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            found.append(Text("docstring", name, node.lineno, " ".join(node.value.value.split())))
            return
        text = flat(node) if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)) else None
        if text is not None and len(text.split()) >= 3 and not code_like(text):
            found.append(Text("message", name, node.lineno, " ".join(text.split())))
        for child in ast.iter_child_nodes(node):
            if text is None or isinstance(child, ast.FormattedValue):
                walk(child)

    walk(ast.parse(source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "---" not in token.string and "http" not in token.string:
            found.append(Text("comment", name, token.start[0], token.string.lstrip("#: ").strip()))
    return found


def markdown_texts(path, name):
    found, block, start, fence = [], [], 0, False

    def flush():
        if block:
            found.append(Text("doc", name, start, " ".join(" ".join(block).split())))
            block.clear()

    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fence = not fence
            flush()
        elif fence or (line.startswith("    ") and not block) or line.startswith("<!--"):
            continue
        elif not line.strip() or set(line.strip()) <= set("|-: "):
            flush()
        elif line.startswith(("#", "|")):
            flush()
            found.append(Text("doc", name, number, line.strip("#| ").strip()))
        else:
            if re.match(r"\s*([-*]|\d+\.) ", line):
                flush()
            if not block:
                start = number
            block.append(line.strip())
    flush()
    return found


def read(root):
    texts = []
    for path in sorted((root / "shapesolve").rglob("*.py")):
        texts += python_texts(path, str(path.relative_to(root)))
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        name = path.relative_to(root).as_posix()
        if not name.startswith(GENERATED):
            texts += markdown_texts(path, name)
    return texts


def hits(texts):
    for t in texts:
        for name, one in TICS.items():
            if t.kind in one.kinds.split():
                plain = re.sub(r"``.+?``|`[^`]*`", "`x`", t.text)
                for match in one.pattern.finditer(plain):
                    yield name, t, match, plain


def main() -> None:
    root = pathlib.Path(__file__).resolve().parents[1]
    for name, text, match, plain in hits(read(root)):
        around = plain[max(0, match.start() - 60) : match.end() + 60]
        print(f"{text.path}:{text.line}: [{name}] …{around}… -> {TICS[name].better}")


if __name__ == "__main__":
    main()
