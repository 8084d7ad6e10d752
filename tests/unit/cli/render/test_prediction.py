"""Predictions in words."""

import pytest

from tgpu.cli.render.prediction import prediction_text
from tgpu.wire.v1 import PredictionModel


def model(level: str, samples: int = 12) -> PredictionModel:
    return PredictionModel(p50_seconds=200, p90_seconds=7500, level=level, samples=samples)


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        (None, ""),
        (
            model("name"),
            "runs 3m20s, nine of ten end within 2h05m; from 12 jobs of its user with this name",
        ),
        (
            model("size", 1),
            "runs 3m20s, nine of ten end within 2h05m; from 1 job with as many GPUs",
        ),
        (
            model("elapsed"),
            "runs 3m20s, nine of ten end within 2h05m; it runs longer than any known job",
        ),
        (model("limit"), "runs 3m20s: its time limit; there are no similar jobs"),
        (
            model("model"),
            "runs 3m20s, nine of ten end within 2h05m; from 12 jobs that a model was trained on",
        ),
        (
            model("exact"),
            "runs 3m20s, nine of ten end within 2h05m; from 12 jobs of its user with the same "
            "command",
        ),
    ],
    ids=lambda value: getattr(value, "level", ""),
)
def test_a_prediction_says_what_it_rests_on(prediction, words):
    assert prediction_text(prediction) == words
