"""Reproducible benchmarks; not part of the running program.

`python -m benchmarks scoreboard` compares search with other systems, `ablation` leaves out its parts, `protocols`
computes figures of other authors' protocols, `sizes` varies the size of the archive; each writes
`benchmarks/results/*.json`, and `page` updates docs/benchmarks.md with them.
"""
