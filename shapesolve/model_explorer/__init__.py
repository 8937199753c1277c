"""An extension for Google's Model Explorer, which looks for it in the module `main` of the package that it is given.

pip install 'shapesolve[model-explorer]'
model-explorer model.onnx --extensions=shapesolve.model_explorer
"""
