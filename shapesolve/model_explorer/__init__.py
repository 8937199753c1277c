"""An extension for Google's Model Explorer, which imports `main` from this package.

pip install 'shapesolve[model-explorer]'
model-explorer model.onnx --extensions=shapesolve.model_explorer
"""
