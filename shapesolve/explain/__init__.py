"""Explanations: the origin of sizes, the reasons for contradictions, and possible fixes."""
