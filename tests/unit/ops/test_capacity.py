"""The capacity model: its arithmetic, against what was measured."""

import pytest
from django.apps import apps

from convmemory.ops.capacity import MEASURED, Cost, Load, estimate


def test_rows_and_bytes_follow_from_load() -> None:
    result = estimate(Load(users=10, turns_per_user=1_000))
    lines = {line.table: line for line in result.lines}
    assert lines["search_passageblock"].rows == 1_500
    assert lines["conversations_message"].rows == 20_000
    assert lines["conversations_conversation"].rows == 500
    packed = 40_000 * (292 + 23.5 + 16 + 20 * 48) + 13_000 * (98 + 23.5)  # of passages, and of turns' chunks
    assert lines["search_passageblock"].table_bytes == 1_500 * 3_450 + packed
    assert lines["search_passageblock"].index_bytes == 1_500 * 170
    assert result.embed_hours == pytest.approx(40_000 / 520 / 3_600)
    assert result.total_bytes == sum(line.total for line in result.lines)
    assert 0 < result.working_set_bytes < result.total_bytes


def test_ten_times_users_take_ten_times_bytes() -> None:
    one, ten = (estimate(Load(users=users, turns_per_user=2_000)).total_bytes for users in (10, 100))
    assert ten == pytest.approx(10 * one, rel=0.001)


def test_wider_model_adds_only_bytes_of_its_vectors() -> None:
    narrow, wide = (
        estimate(Load(users=1, turns_per_user=1_000, dimensions=d, token_dimensions=0)) for d in (384, 1536)
    )
    vectors = 1_300  # of turns' chunks
    codes = 4_000 * 6 + 1_300 * 2  # bits of passages, and of turns' chunks
    assert wide.total_bytes - narrow.total_bytes == vectors * 2 * 1_152 + codes * 1_152 // 8


def test_measured_bytes_take_place_of_defaults() -> None:
    costs = {**MEASURED, "search_passageblock": Cost(0, 0)}
    line = next(li for li in estimate(Load(1, 1_000), costs).lines if li.table == "search_passageblock")
    assert (line.table_bytes, line.index_bytes) == (4_000 * (292 + 23.5 + 16 + 20 * 48) + 1_300 * (98 + 23.5), 0)


OF_FEW_ROWS = {"search_pastsearch", "search_rerankerweight"}  # however much is stored


def test_every_table_that_grows_with_what_people_store_is_counted() -> None:
    tables = {line.table for line in estimate(Load(1, 1_000)).lines}
    of_search = {model._meta.db_table for model in apps.get_app_config("search").get_models()}
    assert of_search - OF_FEW_ROWS <= tables
    assert set(MEASURED) == tables
