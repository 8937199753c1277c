"""Argument checks of public functions, with errors that name the accepted types.

    @checked
    def fix(model: Any, sizes: Mapping[str, int]) -> ModelProto: ...

    >>> fix(model, 3)
    TypeError: fix: sizes must be a mapping of str to int, got 3

The elements of a container are checked only if the call fails: the function's own errors are more specific.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin

_CONTAINERS = (Mapping, dict, Set, Iterable, Sequence, Collection, list, tuple)
P = ParamSpec("P")
T = TypeVar("T")
_LISTS = (Iterable, Sequence, Collection, list, tuple)
_NAMES = {
    NoneType: "None",
    bool: "True or False",
    float: "number",
    Mapping: "mapping",
    dict: "mapping",
    Set: "set",
}


class _Kind(NamedTuple):
    """Accepted types of an argument: a type (None: any) with element types, or alternatives."""

    type: Any = None
    holds: tuple[_Kind, ...] = ()
    either: tuple[_Kind, ...] = ()

    def fits(self, value: Any, inside: bool) -> bool:
        if self.either:
            return any(kind.fits(value, inside) for kind in self.either)
        if self.type is None:
            return True
        if self.type is Callable:
            return callable(value)
        if self.type is int and not isinstance(value, str | bytes):
            return hasattr(type(value), "__index__")  # numpy has separate integer types
        if self.type is float and hasattr(type(value), "__float__"):
            return True
        if not isinstance(value, self.type) or (self.type in _LISTS and isinstance(value, str | bytes)):
            return False
        return not inside or self._holds(value)

    def _holds(self, value: Any) -> bool:
        if isinstance(value, Mapping) and len(self.holds) == 2:
            key, item = self.holds
            return all(key.fits(k, True) and item.fits(v, True) for k, v in value.items())
        if isinstance(value, list | tuple | Set) and len(self.holds) == 1:
            return all(self.holds[0].fits(item, True) for item in value)
        return True

    def text(self, article: str = "a ") -> str:
        """Return a description of the accepted types."""
        if self.either:
            words = list(dict.fromkeys(kind.text(article) for kind in self.either))
            return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        if self.type in (NoneType, bool):
            return _NAMES[self.type]
        if self.type is Callable:
            return f"{article}function"
        name = (
            "list" if self.type in _LISTS else _NAMES.get(self.type, getattr(self.type, "__name__", "value"))
        )
        held = [kind.text("") for kind in self.holds if kind != _ANY]
        of = f" of {' to '.join(held)}" if held and len(held) == len(self.holds) else ""
        return f"{article and ('an ' if name[0] in 'aeiouAEIOU' else 'a ')}{name}{of}"


_ANY = _Kind()


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Make a call with wrong argument types raise `TypeError` with the accepted types (decorator)."""
    kinds: dict[str, _Kind] = {}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not kinds:
            kinds.update(_kinds(function))
        given = {**dict(zip(kinds, args)), **kwargs}
        _check(function, kinds, given, inside=False)
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError):
            _check(function, kinds, given, inside=True)
            raise

    return call


def checked_where_it_fails(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a frequently called function like `checked`, but check arguments only after an exception."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, ValueError) as e:
            kinds = _kinds(function)
            for inside in (False,) if isinstance(e, ValueError) else (False, True):
                _check(function, kinds, {**dict(zip(kinds, args)), **kwargs}, inside=inside)
            raise

    return call


def wrong(taken: str, given: object) -> TypeError:
    """Return the `TypeError` for a wrong argument, for functions that cannot use `checked`."""
    text = repr(given)
    return TypeError(f"{taken}, got {text if len(text) <= 80 else f'{text[:80]}…'}")


def _check(function: Any, kinds: Mapping[str, _Kind], given: Mapping[str, Any], *, inside: bool) -> None:
    for name, value in given.items():
        kind = kinds.get(name, _ANY)
        if not kind.fits(value, inside):
            raise wrong(f"{function.__name__}: {name} must be {kind.text()}", value)


def _kinds(function: Any) -> dict[str, _Kind]:
    """Return the accepted types of each parameter, in order."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    annotations = function.__annotations__
    return {name: _read(annotations.get(name, "Any"), function.__globals__) for name in names}


def _read(annotation: Any, known: Mapping[str, Any]) -> _Kind:
    if not isinstance(annotation, str):
        return _of(annotation)
    return _of_node(ast.parse(annotation, mode="eval").body, known)


def _of_node(node: ast.expr, known: Mapping[str, Any]) -> _Kind:
    """Return the accepted types from an annotation's syntax tree; names unknown at run time accept anything."""
    if isinstance(node, ast.BinOp):
        return _either((_of_node(node.left, known), _of_node(node.right, known)))
    if isinstance(node, ast.Constant):
        return _Kind(NoneType) if node.value is None else _ANY
    if isinstance(node, ast.Name):
        return _of(known.get(node.id, getattr(builtins, node.id, Any)))
    if isinstance(node, ast.Subscript):
        base = _of_node(node.value, known)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base.type in _CONTAINERS:
            return _Kind(base.type, tuple([_of_node(n, known) for n in inner]))
        return base if base.type is Callable else _ANY
    return _ANY


def _of(found: Any) -> _Kind:
    """Return the accepted types from a type object."""
    origin, args = get_origin(found), get_args(found)
    if found is None or found is NoneType:
        return _Kind(NoneType)
    if origin in (Union, UnionType):
        return _either(tuple(map(_of, args)))
    if origin is Literal:
        return _either(tuple([_Kind(type(value)) for value in args]))
    if origin in _CONTAINERS:
        return _Kind(origin, tuple([_of(a) for a in args if a is not ...]))
    if Callable in (found, origin):
        return _Kind(Callable)
    return _Kind(found) if isinstance(found, type) and found is not Any else _ANY


def _either(kinds: tuple[_Kind, ...]) -> _Kind:
    return _ANY if _ANY in kinds else _Kind(either=kinds)
