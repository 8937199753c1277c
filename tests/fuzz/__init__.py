"""Fuzzers: random graphs against onnxruntime, random questions against brute force, damaged files.

    python -m tests.fuzz graphs --count 1000 --seed 0 --out found/

Graphs are drawn by `model.drawn_model` (kinds of operators are declared in `kinds`); the conformance tests draw theirs
from it too.
"""
