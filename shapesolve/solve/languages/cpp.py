"""C++ checkers: one header, with 64-bit arithmetic that detects overflow."""

from __future__ import annotations

from ...expr.code import Syntax
from ...expr.limits import INT64_MAX
from ..program import Templates
from .language import INFIX, Language


def _literal(text: str) -> str:
    """C++ string literal, as bytes of UTF-8. An octal escape has three digits, and ``?`` could begin a trigraph."""
    return '"' + "".join(map(_character, text)) + '"s'


def _character(c: str) -> str:
    if c.isascii() and c.isprintable() and c not in '"\\?':
        return c
    return "".join(f"\\{b:03o}" for b in c.encode(errors="replace"))


def _identifier(base: str) -> str:
    """An identifier that differs from all keywords, macros and generated names."""
    return f"{base}_" if base[:1].isalpha() else f"size_{base}_"


CPP = Language(
    syntax=Syntax(
        number="{}",
        divided={"//": "floordiv({}, {})", "%": "mod({}, {})"},
        called={
            "max": "max_of({})",
            "min": "min_of({})",
            "abs": "abs_of({})",
            "broadcast": "broadcast({{{}}})",
        },
        choice="choose({0}, {1}, {2})",
        compared={sign: f"({text})" for sign, text in INFIX.items()},
        joined={"and": " & ", "or": " | "},
        truth={"true": "Truth{true, true}", "false": "Truth{false, true}"},
        widest=INT64_MAX,
    ),
    templates=Templates(
        size="    const Int {name} = {value};",
        condition="    const Truth {name} = {value};",
        test="    check(broken, {cond}, {text});",
        given="    outputs[{name}] = {{{sizes}}};",
        one="size_of({}), ",
        got="std::to_string({name}.value)",
        place="Int(shapes.at({name})[{axis}])",
        remark="    // {}",
        literal=_literal,
    ),
    identifier=_identifier,
    rank="        {{{name}, {rank}}},\n",
    other="        {name},\n",
    around="""\
// Checks the shapes of a model's inputs; written from the model's contract. C++14, the standard library only.
//
//     checked::check_inputs(shapes) returns the conditions that are broken; when there are none, the model runs.
//
// Numbers have 64 bits. A condition in which one does not fit is reported as broken, with a note.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace checked {

using Broken = std::vector<std::string>;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

// A number, and whether it has fitted so far.
struct Int {
    std::int64_t value;
    bool fits;
    Int(std::int64_t v, bool f = true)
        : value(f && v >= -most() ? v : 0), fits(f && v >= -most()) {}
    static std::int64_t most() { return std::numeric_limits<std::int64_t>::max(); }
};

struct Truth {
    bool holds;
    bool fits;
};

inline Int operator-(Int a) { return Int(-a.value, a.fits); }

inline Int operator+(Int a, Int b) {
    const bool over = b.value > 0 ? a.value > Int::most() - b.value : a.value < -Int::most() - b.value;
    return over ? Int(0, false) : Int(a.value + b.value, a.fits && b.fits);
}

inline Int operator-(Int a, Int b) { return a + -b; }

inline Int abs_of(Int a) { return a.value < 0 ? -a : a; }

inline Int operator*(Int a, Int b) {
    const std::int64_t y = abs_of(b).value;
    const bool over = y != 0 && abs_of(a).value > Int::most() / y;
    return over ? Int(0, false) : Int(a.value * b.value, a.fits && b.fits);
}

inline Int floordiv(Int n, Int d) {
    if (d.value == 0) return Int(0, n.fits && d.fits);
    const std::int64_t rest = n.value % d.value;
    const bool down = rest != 0 && (rest < 0) != (d.value < 0);
    return Int(n.value / d.value - (down ? 1 : 0), n.fits && d.fits);
}

inline Int mod(Int n, Int d) {
    if (d.value == 0) return Int(n.value, n.fits && d.fits);
    const std::int64_t rest = n.value % d.value;
    const bool down = rest != 0 && (rest < 0) != (d.value < 0);
    return Int(down ? rest + d.value : rest, n.fits && d.fits);
}

inline Int max_of(Int a, Int b) { return Int(std::max(a.value, b.value), a.fits && b.fits); }
inline Int min_of(Int a, Int b) { return Int(std::min(a.value, b.value), a.fits && b.fits); }

inline Int broadcast(std::initializer_list<Int> sizes) {
    for (const Int size : sizes)
        if (!size.fits || size.value != 1) return size;
    return Int(1);
}

inline Truth operator==(Int a, Int b) { return {a.value == b.value, a.fits && b.fits}; }
inline Truth operator!=(Int a, Int b) { return {a.value != b.value, a.fits && b.fits}; }
inline Truth operator>=(Int a, Int b) { return {a.value >= b.value, a.fits && b.fits}; }
inline Truth operator<=(Int a, Int b) { return {a.value <= b.value, a.fits && b.fits}; }

inline Truth operator&(Truth a, Truth b) {
    if ((a.fits && !a.holds) || (b.fits && !b.holds)) return {false, true};
    return {true, a.fits && b.fits};
}

inline Truth operator|(Truth a, Truth b) {
    if ((a.fits && a.holds) || (b.fits && b.holds)) return {true, true};
    return {false, a.fits && b.fits};
}

inline Int choose(Truth which, Int a, Int b) {
    if (!which.fits) return Int(0, false);
    return which.holds ? a : b;
}

inline void check(Broken& broken, Truth truth, const std::string& text) {
    if (!truth.fits)
        broken.push_back(text + " (a number does not fit in 64 bits)");
    else if (!truth.holds)
        broken.push_back(text);
}

inline Broken check_inputs(const Shapes& shapes) {
    using namespace std::string_literals;
    const std::vector<std::pair<std::string, std::size_t>> ranks = {
@RANKS@    };
    const std::vector<std::string> others = {
@OTHERS@    };
    Broken broken;
    for (const auto& given : shapes) {
        const auto is_it = [&given](const auto& input) { return input.first == given.first; };
        const bool known = std::any_of(ranks.begin(), ranks.end(), is_it);
        if (!known && std::find(others.begin(), others.end(), given.first) == others.end())
            broken.push_back(given.first + " is no input that is checked");
    }
    for (const auto& input : ranks) {
        const auto found = shapes.find(input.first);
        if (found == shapes.end())
            broken.push_back(input.first + " is missing");
        else if (found->second.size() != input.second)
            broken.push_back(input.first + " must have " + std::to_string(input.second) + " axes (got " +
                             std::to_string(found->second.size()) + ")");
        else if (std::any_of(found->second.begin(), found->second.end(), [](std::int64_t n) { return n < 0; }))
            broken.push_back(input.first + " must not have a negative size (got " +
                             std::to_string(*std::min_element(found->second.begin(), found->second.end())) + ")");
    }
    if (!broken.empty()) return broken;
@STEPS@
    return broken;
}
@OUTPUTS@
}  // namespace checked
""",
    outputs="""
inline void refuse(const Broken& broken) {
    std::string text;
    for (const auto& condition : broken) text += (text.empty() ? "" : "; ") + condition;
    if (!broken.empty()) throw std::invalid_argument(text);
}

inline std::int64_t size_of(Int size) {
    if (!size.fits) refuse({"a size does not fit in 64 bits"});
    return size.value;
}

// Shapes of the outputs at shapes of the inputs; throws std::invalid_argument where these break conditions.
inline Shapes output_shapes(const Shapes& shapes) {
    using namespace std::string_literals;
    refuse(check_inputs(shapes));
    Broken broken;
    Shapes outputs;
@STEPS@
    refuse(broken);
    return outputs;
}
""",
    suffix=".hpp",
)
