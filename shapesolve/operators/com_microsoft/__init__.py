"""Operators of onnxruntime's own domain (``com.microsoft``)."""
