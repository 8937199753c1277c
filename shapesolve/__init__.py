"""Symbolic shape analysis of ONNX models."""
from .analysis import analyze
from .dims import Dim, Shape, broadcast_shapes, parse_dim
