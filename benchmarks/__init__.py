"""Benchmarks that anybody can repeat: no part of the running program.

`python -m benchmarks scoreboard` measures search beside other systems, `ablation` without one of its parts, `protocols`
as others count, `sizes` by the size of the archive; each writes `benchmarks/results/*.json`, and `page` brings
docs/benchmarks.md up to date with them.
"""
