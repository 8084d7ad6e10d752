"""How long a job will run, in words."""

from typing import Final

from tgpu.cli.render.words import plural
from tgpu.text.durations import duration_text
from tgpu.wire.v1 import PredictionModel

_ALIKE: Final = {
    "exact": "of its user with the same command",
    "command": "of its user with this name and command, apart from numbers",
    "name": "of its user with this name",
    "user": "of its user with as many GPUs",
    "tenant": "of the tenant with as many GPUs",
    "size": "with as many GPUs",
    "any": "of all kinds",
    "model": "that a model was trained on",
}


def prediction_text(prediction: PredictionModel | None) -> str:
    """Empty where nothing is predicted."""
    if prediction is None:
        return ""
    if prediction.level == "limit":
        return (
            f"runs {duration_text(prediction.p50_seconds)}: its time limit; there are no "
            "similar jobs"
        )
    told = (
        f"runs {duration_text(prediction.p50_seconds)}, "
        f"nine of ten end within {duration_text(prediction.p90_seconds)}"
    )
    if prediction.level == "elapsed":
        return f"{told}; it runs longer than any known job"
    alike = _ALIKE.get(prediction.level)
    return f"{told}; from {plural(prediction.samples, 'job')} {alike}" if alike else told
