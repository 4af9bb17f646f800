"""The models of ``benchmarks/capture_zoo.py``, each with weights that were computed without Regard."""
