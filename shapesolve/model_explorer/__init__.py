"""Extension for Google's Model Explorer; exports `main`.

pip install 'shapesolve[model-explorer]'
model-explorer model.onnx --extensions=shapesolve.model_explorer
"""
