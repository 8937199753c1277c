"""Rust: a module of 64-bit numbers that are none where they do not fit."""

from __future__ import annotations

from ...expr.code import Syntax
from ..program import Templates
from .language import WIDEST, Language, apart, escaped


def _rust_literal(text: str) -> str:
    return '"' + escaped(text, '"\\', lambda c: f"\\u{{{ord(c):x}}}") + '"'


RUST = Language(
    syntax=Syntax(
        number="n({})",
        divided={"//": "floordiv({}, {})", "%": "modulo({}, {})"},
        called={"max": "max({})", "min": "min({})", "abs": "abs({})", "broadcast": "broadcast(&[{}])"},
        choice="choose({0}, {1}, {2})",
        compared={"==": "eq({}, {})", "!=": "ne({}, {})", ">=": "ge({}, {})", "<=": "le({}, {})"},
        joined={"and": " & ", "or": " | "},
        truth={"true": "Truth(Some(true))", "false": "Truth(Some(false))"},
        widest=WIDEST,
    ),
    templates=Templates(
        size="        let {name} = {value};",
        condition="        let {name} = {value};",
        test="        check(&mut broken, {cond}, {text});",
        place="n(shapes[{name}][{axis}])",
        remark="        // {}",
        literal=_rust_literal,
    ),
    identifier=apart,
    rank="            ({name}, {rank}),\n",
    other="            {name},\n",
    around="""\
// Checks the shapes of a model's inputs; written from the model's contract. The standard library only.
//
//     check_inputs(&shapes) returns the conditions that are broken; when there are none, the model runs.
//
// Numbers have 64 bits. A condition in which one does not fit is told as broken, with a word on it.
pub use self::checked::check_inputs;

#[allow(dead_code, non_snake_case, unused_parens)]
mod checked {
    use std::collections::HashMap;
    use std::ops::{Add, BitAnd, BitOr, Mul, Neg, Sub};

    /// A number; none where it does not fit.
    #[derive(Clone, Copy)]
    struct Int(Option<i64>);

    #[derive(Clone, Copy)]
    struct Truth(Option<bool>);

    fn n(value: i64) -> Int {
        Int(Some(value))
    }

    fn both(a: Int, b: Int, f: impl Fn(i64, i64) -> Option<i64>) -> Int {
        Int(a.0.and_then(|x| b.0.and_then(|y| f(x, y))))
    }

    impl Add for Int {
        type Output = Int;
        fn add(self, other: Int) -> Int {
            both(self, other, i64::checked_add)
        }
    }

    impl Sub for Int {
        type Output = Int;
        fn sub(self, other: Int) -> Int {
            both(self, other, i64::checked_sub)
        }
    }

    impl Mul for Int {
        type Output = Int;
        fn mul(self, other: Int) -> Int {
            both(self, other, i64::checked_mul)
        }
    }

    impl Neg for Int {
        type Output = Int;
        fn neg(self) -> Int {
            Int(self.0.and_then(i64::checked_neg))
        }
    }

    fn floordiv(n: Int, d: Int) -> Int {
        both(n, d, |x, y| {
            if y == 0 {
                return Some(0);
            }
            let q = x.checked_div(y)?;
            let down = x % y != 0 && (x < 0) != (y < 0);
            Some(if down { q - 1 } else { q })
        })
    }

    fn modulo(n: Int, d: Int) -> Int {
        both(n, d, |x, y| {
            if y == 0 {
                return Some(x);
            }
            let rest = x.checked_rem(y)?;
            Some(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest })
        })
    }

    fn max(a: Int, b: Int) -> Int {
        both(a, b, |x, y| Some(x.max(y)))
    }

    fn min(a: Int, b: Int) -> Int {
        both(a, b, |x, y| Some(x.min(y)))
    }

    fn abs(a: Int) -> Int {
        Int(a.0.and_then(i64::checked_abs))
    }

    fn broadcast(sizes: &[Int]) -> Int {
        *sizes.iter().find(|size| size.0 != Some(1)).unwrap_or(&Int(Some(1)))
    }

    fn compare(a: Int, b: Int, f: impl Fn(i64, i64) -> bool) -> Truth {
        Truth(a.0.and_then(|x| b.0.map(|y| f(x, y))))
    }

    fn eq(a: Int, b: Int) -> Truth {
        compare(a, b, |x, y| x == y)
    }

    fn ne(a: Int, b: Int) -> Truth {
        compare(a, b, |x, y| x != y)
    }

    fn ge(a: Int, b: Int) -> Truth {
        compare(a, b, |x, y| x >= y)
    }

    fn le(a: Int, b: Int) -> Truth {
        compare(a, b, |x, y| x <= y)
    }

    impl BitAnd for Truth {
        type Output = Truth;
        fn bitand(self, other: Truth) -> Truth {
            match (self.0, other.0) {
                (Some(false), _) | (_, Some(false)) => Truth(Some(false)),
                (Some(true), Some(true)) => Truth(Some(true)),
                _ => Truth(None),
            }
        }
    }

    impl BitOr for Truth {
        type Output = Truth;
        fn bitor(self, other: Truth) -> Truth {
            match (self.0, other.0) {
                (Some(true), _) | (_, Some(true)) => Truth(Some(true)),
                (Some(false), Some(false)) => Truth(Some(false)),
                _ => Truth(None),
            }
        }
    }

    fn choose(which: Truth, a: Int, b: Int) -> Int {
        match which.0 {
            Some(true) => a,
            Some(false) => b,
            None => Int(None),
        }
    }

    fn check(broken: &mut Vec<String>, truth: Truth, text: &str) {
        match truth.0 {
            Some(true) => {}
            Some(false) => broken.push(text.to_string()),
            None => broken.push(format!("{} (a number does not fit in 64 bits)", text)),
        }
    }

    /// The conditions that shapes of the inputs break; when there are none, the model runs.
    pub fn check_inputs(shapes: &HashMap<String, Vec<i64>>) -> Vec<String> {
        let ranks: &[(&str, usize)] = &[
@RANKS@        ];
        let others: &[&str] = &[
@OTHERS@        ];
        let mut broken: Vec<String> = Vec::new();
        for name in shapes.keys() {
            if !ranks.iter().any(|r| r.0 == name) && !others.contains(&name.as_str()) {
                broken.push(format!("{} is no input that is checked", name));
            }
        }
        for (name, rank) in ranks {
            match shapes.get(*name) {
                None => broken.push(format!("{} is missing", name)),
                Some(shape) if shape.len() != *rank => broken.push(format!("{} has {} axes", name, rank)),
                Some(shape) if shape.iter().any(|size| *size < 0) => {
                    broken.push(format!("{} has no negative size", name))
                }
                Some(_) => {}
            }
        }
        if !broken.is_empty() {
            return broken;
        }
@STEPS@
        broken
    }
}
""",
    suffix=".rs",
)
