"""Speed of shapesolve beside its peers (`python -m benchmarks`) and over model size (`benchmarks.growth`)."""
