"""`python -m benchmarks sizes`: measure search times and bytes by the size of an archive.

Synthetic archives of one user each, created by the generator of `make bench` (words by Zipf's law, eight passages a
turn), one after the other on one server; smaller ones stay in it with larger ones. Next to each, a table of as many
vectors as it has turns, and one of as many as it has passages, with pgvector's HNSW index: the question is embedded,
and the twenty nearest rows are read. A size that was measured at the same commit is not measured again. Writes
`benchmarks/results/sizes.json`.
"""

import shutil
import time
from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from benchmarks.metrics import percentiles
from benchmarks.running import database_bytes
from benchmarks.runs import is_measured, read_results, run_facts, say, write_result
from benchmarks.speeds.bench import QUERIES, fresh_user, refresh_statistics, search_ms, timed_s
from benchmarks.speeds.synthetic import PASSAGES_PER_TURN, TextMaker, VectorMaker, fill_turns
from convmemory.accounts.callers import Caller
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, embedder_for

SIZES = (2_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
INSERTED = 5_000
MOST_INDEXED = 300_000  # pgvector takes minutes to index more


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    facts = run_facts()
    resumes = is_measured("sizes", facts["commit"]) and not options.again
    sizes = read_results("sizes")[""]["sizes"] if resumes else []
    if not resumes:
        shutil.rmtree(settings.VAR_DIR / "postgres", ignore_errors=True)
    call_command("migrate", verbosity=0)
    for passages in SIZES:
        if passages > options.up_to or any(one["passages"] == passages for one in sizes):
            continue
        sizes.append(measure(passages))
        write_result("sizes", facts | {"sizes": sizes})
        say(f"{passages:,} passages: {sizes[-1]}")


def measure(passages: int) -> dict[str, Any]:
    """Create an archive of this size and search it. `bytes` is the growth of the database."""
    before, started = database_bytes(), time.perf_counter()
    space, maker = active_space(), TextMaker(seed=passages)
    caller = Caller.of(fresh_user(f"bench-size-{passages}"))
    vectors = VectorMaker(space.dimensions, seed=passages)
    fill_turns(caller=caller, space=space, turns=passages // PASSAGES_PER_TURN, maker=maker, vectors=vectors)
    refresh_statistics()
    made_s = time.perf_counter() - started
    row = {
        "passages": passages,
        "search_ms": percentiles(search_ms(caller, maker)),
        "bytes": database_bytes() - before,
        "made_s": round(made_s, 1),
    }
    for name, count in (("turns", passages // PASSAGES_PER_TURN), ("passages", passages)):
        if count <= MOST_INDEXED:
            row[f"hnsw_{name}_ms"] = percentiles(hnsw_ms(count, space, maker, vectors))
    return row


def hnsw_ms(count: int, space: EmbeddingSpace, maker: TextMaker, vectors: VectorMaker) -> list[float]:
    """Return the milliseconds of some questions to a table of so many vectors with an HNSW index."""
    embedder, run = embedder_for(space), connection.cursor().execute
    run(f"CREATE TEMPORARY TABLE vectors (id serial, embedding halfvec({space.dimensions}))")
    try:
        for start in range(0, count, INSERTED):
            rows = vectors.vectors(min(INSERTED, count - start))
            run(
                "INSERT INTO vectors (embedding) SELECT unnest(%s::text[])::halfvec",
                [[str(row.tolist()) for row in rows]],
            )
        run("SET maintenance_work_mem = '1GB'")
        run("CREATE INDEX ON vectors USING hnsw (embedding halfvec_cosine_ops)")

        def ask(question: str) -> None:
            vector = str(embedder.embed_query(question).tolist())
            run("SELECT id FROM vectors ORDER BY embedding <=> %s::halfvec LIMIT 20", [vector])

        questions = [maker.question(8) for _ in range(QUERIES)]
        ask(questions[0])
        return [timed_s(partial(ask, question)) * 1000 for question in questions[1:]]
    finally:
        run("DROP TABLE vectors")
        run("RESET maintenance_work_mem")


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks sizes")
    parser.add_argument("--up-to", type=int, default=SIZES[-1], help="the largest archive, in passages")
    parser.add_argument("--again", action="store_true", help="repeat what an earlier run has measured")
    return parser.parse_args(arguments)
