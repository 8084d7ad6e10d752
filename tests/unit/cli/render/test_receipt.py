from tests.unit.cli.builders import NOW_MS
from tgpu.cli.render.receipt import receipt_lines
from tgpu.wire.receipt_v1 import ReceiptModel

ATTEMPT = {
    "attempt": 1,
    "started_at": "2023-11-14T22:12:50Z",
    "ended_at": "2023-11-14T22:13:10Z",
    "run_seconds": 20.0,
    "gpu_hours": 0.0111,
    "gpus": [0, 1],
    "failure": "xid",
}


def shown(**changes: object) -> str:
    fields: dict[str, object] = {
        "job_id": "12",
        "tenant_id": "default",
        "user": "ada",
        "name": "train",
        "state": "failed",
        "failure": "xid",
        "cause": "GPU 0: Xid 79 (exit code 1)",
        "submitted_at": "2023-11-14T22:12:20Z",
        "ended_at": "2023-11-14T22:13:10Z",
        "wait_seconds": 30.0,
        "run_seconds": 20.0,
        "gpu_count": 2.0,
        "gpu_hours": 0.0111,
        "lost_gpu_hours": 0.0,
        "peak_gpu_memory_mb": None,
        "cost": None,
        "attempts": [ATTEMPT],
        "complete": True,
    }
    found = ReceiptModel.model_validate({**fields, **changes})
    lines = receipt_lines(found, NOW_MS, None)
    return "\n".join("".join(cell.text for cell in line).rstrip() for line in lines)


def test_a_receipt_has_wait_use_and_attempts() -> None:
    text = shown()
    assert "failure    xid: its GPU had an error" in text
    assert "waited     30s" in text
    assert "GPU-hours  0.0111" in text
    assert "GPU 0-1" in text


def test_what_is_not_known_is_left_out() -> None:
    text = shown(attempts=[])
    for word in ("cost", "peak memory", "note", "ATTEMPT"):
        assert word not in text


def test_cost_peak_and_loss_are_shown_where_they_are_known() -> None:
    text = shown(cost=12.5, peak_gpu_memory_mb=40_960, lost_gpu_hours=2.0, complete=False)
    assert "12.5" in text
    assert "40G" in text
    assert "2.00 of them lost" in text
    assert "do not go back" in text
