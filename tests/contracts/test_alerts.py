"""Each alert of deploy/monitoring/alerts.yaml fires on made-up metrics, and none on those of a healthy installation."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "alerts.yaml"
MINUTES = 120  # a value a minute, from second 0 on: what happened long ago has a negative time
DAY_S = 86_400
Series = dict[str, str]

HEALTHY: Series = {
    'up{job="convmemory"}': f"1x{MINUTES}",
    'convmemory_last_sweep_timestamp_seconds{kind="quick"}': f"0+60x{MINUTES}",
    "convmemory_queue_oldest_seconds": f"5x{MINUTES}",
    'convmemory_task_failures_total{label="search.tasks.index"}': f"3x{MINUTES}",
    'convmemory_turns{state="given_up"}': f"0x{MINUTES}",
    "convmemory_oldest_unindexed_seconds": f"60x{MINUTES}",
    'convmemory_response_duration_seconds_count{class="2xx"}': f"0+600x{MINUTES}",
    'convmemory_response_duration_seconds_count{class="5xx"}': f"0+1x{MINUTES}",
    'convmemory_search_duration_seconds_bucket{le="0.1"}': f"0+60x{MINUTES}",
    'convmemory_search_duration_seconds_bucket{le="+Inf"}': f"0+60x{MINUTES}",
    "convmemory_audit_entries_total": f"0+10x{MINUTES}",
    'convmemory_pool_wait_duration_seconds_sum{label="app"}': f"0+1x{MINUTES}",
    'convmemory_pool_wait_failures_total{label="app"}': f"0x{MINUTES}",
    'convmemory_stream_failures_total{caller="stranger"}': f"0x{MINUTES}",
    'convmemory_disk_bytes{state="free"}': f"500000000000x{MINUTES}",
    "convmemory_last_backup_timestamp_seconds": f"0x{MINUTES}",
    "convmemory_last_restore_check_timestamp_seconds": f"0x{MINUTES}",
}
ILL: dict[str, tuple[Series, int]] = {
    "ConvmemoryDown": ({"other": f"1x{MINUTES}"}, 10),
    "ConvmemoryProcessGone": ({'up{job="convmemory"}': f"0x{MINUTES}"}, 10),
    "ConvmemoryNoWorker": ({'convmemory_last_sweep_timestamp_seconds{kind="quick"}': f"0x{MINUTES}"}, 20),
    "ConvmemoryQueueOld": ({"convmemory_queue_oldest_seconds": f"1900x{MINUTES}"}, 20),
    "ConvmemoryTasksFail": ({'convmemory_task_failures_total{label="search.tasks.index"}': f"0+1x{MINUTES}"}, 30),
    "ConvmemoryTurnsGivenUp": ({'convmemory_turns{state="given_up"}': f"4x{MINUTES}"}, 30),
    "ConvmemoryIndexBehind": ({"convmemory_oldest_unindexed_seconds": f"4000x{MINUTES}"}, 30),
    "ConvmemoryErrors": (
        {
            'convmemory_response_duration_seconds_count{class="2xx"}': f"0+600x{MINUTES}",
            'convmemory_response_duration_seconds_count{class="5xx"}': f"0+20x{MINUTES}",
        },
        30,
    ),
    "ConvmemorySearchSlow": (
        {
            'convmemory_search_duration_seconds_bucket{le="1"}': f"0+1x{MINUTES}",
            'convmemory_search_duration_seconds_bucket{le="4"}': f"0+60x{MINUTES}",
            'convmemory_search_duration_seconds_bucket{le="+Inf"}': f"0+60x{MINUTES}",
        },
        60,
    ),
    "ConvmemoryAuditLogGrows": ({"convmemory_audit_entries_total": f"0+300x{MINUTES}"}, 90),
    "ConvmemoryConnectionsShort": ({'convmemory_pool_wait_failures_total{label="app"}': f"0+1x{MINUTES}"}, 30),
    "ConvmemoryStreamsHeld": ({'convmemory_stream_failures_total{caller="stranger"}': f"0+1x{MINUTES}"}, 30),
    "ConvmemoryDiskFull": ({'convmemory_disk_bytes{state="free"}': f"4000000000x{MINUTES}"}, 30),
    "ConvmemoryDiskFills": ({'convmemory_disk_bytes{state="free"}': f"500000000000-2000000000x{MINUTES}"}, MINUTES),
    "ConvmemoryBackupOld": ({"convmemory_last_backup_timestamp_seconds": f"{-2 * DAY_S}x{MINUTES}"}, 5),
    "ConvmemoryRestoreNotChecked": ({"convmemory_last_restore_check_timestamp_seconds": f"{-90 * DAY_S}x{MINUTES}"}, 5),
}


def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def checked(series: Series, minutes: int, expected: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a test of alerts on these series, as promtool takes it."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": alerts} for name, alerts in expected.items()
        ],
    }


def test_each_alert_fires_on_its_failure_alone(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    assert set(ILL) == set(rules())
    tests = [checked(HEALTHY, MINUTES, {name: [] for name in ILL})]
    for name, rule in rules().items():
        series, minutes = ILL[name]
        kept = dict(part.split("=") for part in labels_of(rule["expr"], series))
        labels = rule["labels"] | {label: value.strip('"') for label, value in kept.items()}
        fired = {"exp_labels": labels, "exp_annotations": rule["annotations"]}
        tests.append(checked(series, minutes, {name: [fired]}))
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def labels_of(expression: str, series: Series) -> list[str]:
    """Return the labels of an alert: those of its series, unless the expression adds series up."""
    if any(word in expression for word in ("sum", "max(", "absent", "histogram_quantile")):
        return []
    (name,) = series
    return name.partition("{")[2].removesuffix("}").split(",") if "{" in name else []
