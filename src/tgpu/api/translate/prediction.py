"""Adds the predicted run time to the answer about a single job."""

from tgpu.api.translate.jobs import job_model
from tgpu.core.model.reasons import Reason
from tgpu.core.model.units import SECOND
from tgpu.service.service import Service
from tgpu.store.api import StoredJob
from tgpu.wire.v1 import JobModel, PredictionModel


def predicted_job_model(service: Service, stored: StoredJob, waits: Reason | None) -> JobModel:
    """Not for lists: those are read often, and nobody looks at a thousand predictions."""
    model = job_model(service, stored, waits)
    predicted = service.prediction(stored)
    if predicted is None:
        return model
    told = PredictionModel(
        p50_seconds=predicted.p50_ms / SECOND,
        p90_seconds=predicted.p90_ms / SECOND,
        level=predicted.confidence.level,
        samples=predicted.confidence.samples,
    )
    return model.model_copy(update={"prediction": told})
