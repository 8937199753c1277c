"""Operators of onnxruntime (``com.microsoft``)."""
