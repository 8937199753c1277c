"""Makes fixed sizes of a model dynamic, by proof or by comparing several exports."""
