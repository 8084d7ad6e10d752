"""Quota providers for plug-in authors.

The local provider is the scheduler's own books: limits are set by `/api/v1/tenants` and
`/api/v1/queues/quota` and hold inside every decision. A provider of your own is asked once more
before a job starts, and told when it ends; name it in your package's metadata:

    [project.entry-points."tgpu.quota"]
    ldap = "my_package:LdapQuotaProvider"

and choose it with `quota.provider: ldap`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Final

__all__ = [
    "JobTypeEnum",
    "K8sQuotaProvider",
    "LocalQuotaProvider",
    "NotConfigured",
    "QuotaInfo",
    "QuotaProvider",
    "Resources",
    "SlurmQuotaProvider",
    "load_quota_provider",
]

GROUP: Final = "tgpu.quota"


class JobTypeEnum(StrEnum):
    COMMAND = "command"
    LEASE = "lease"


@dataclass(frozen=True, slots=True)
class Resources:
    """What a job asks for, in cores, GiB and GPUs."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaInfo:
    """A project's limits and what is used of them; None does not limit."""

    project_id: str
    cpu_quota: float | None = None
    memory_quota: float | None = None
    gpu_quota: float | None = None
    used_cpu: float = 0.0
    used_memory: float = 0.0
    used_gpu: float = 0.0
    enforce_quota: bool = True


class NotConfigured(Exception):
    """The provider lacks what it needs to know; the message says what."""


class QuotaProvider(ABC):
    """Calls come from the scheduling loop: answer from memory, and refresh elsewhere."""

    name: str = ""

    @abstractmethod
    def get_quota(self, project_id: str) -> QuotaInfo | None:
        """A project's quota; None if there is no such project."""

    @abstractmethod
    def check_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        """Whether the project may have this now."""

    @abstractmethod
    def allocate_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        """Count it as used; False, and nothing counted, where it may not."""

    @abstractmethod
    def release_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> None:
        """Count it as free again."""


class LocalQuotaProvider(QuotaProvider):
    """The scheduler's own books. They count by themselves, so allocating only asks."""

    name = "local"

    def __init__(self, look_up: Callable[[str], QuotaInfo | None]) -> None:
        self._look_up = look_up

    def get_quota(self, project_id: str) -> QuotaInfo | None:
        return self._look_up(project_id)

    def check_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        quota = self._look_up(project_id)
        if quota is None:
            return False
        if not quota.enforce_quota:
            return True
        return all(
            limit is None or used + wanted <= limit
            for limit, used, wanted in (
                (quota.cpu_quota, quota.used_cpu, resources.cpu),
                (quota.memory_quota, quota.used_memory, resources.memory),
                (quota.gpu_quota, quota.used_gpu, resources.gpu),
            )
        )

    def allocate_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        return self.check_quota(project_id, resources, job_type)

    def release_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> None:
        """Nothing to do: a job that ends leaves the books by itself."""


class _Unconfigured(QuotaProvider):
    needs: str = ""

    def __init__(self) -> None:
        raise NotConfigured(f"quota provider {self.name} is not configured: {self.needs}")

    def get_quota(self, project_id: str) -> QuotaInfo | None:
        raise NotConfigured(self.needs)

    def check_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        raise NotConfigured(self.needs)

    def allocate_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> bool:
        raise NotConfigured(self.needs)

    def release_quota(self, project_id: str, resources: Resources, job_type: JobTypeEnum) -> None:
        raise NotConfigured(self.needs)


class K8sQuotaProvider(_Unconfigured):
    """Kubernetes ResourceQuotas. Needs the Kubernetes engine."""

    name = "k8s"
    needs = (
        "this service has no Kubernetes engine, so K8S_QUOTA_NAMESPACE names a namespace that "
        "it cannot reach; use quota.provider: local"
    )


class SlurmQuotaProvider(_Unconfigured):
    """Slurm accounts and QOS. Needs the Slurm engine."""

    name = "slurm"
    needs = (
        "this service has no Slurm engine, so the accounts under SLURM_ACCOUNT_PREFIX cannot be "
        "reached; use quota.provider: local"
    )


def load_quota_provider(name: str, look_up: Callable[[str], QuotaInfo | None]) -> QuotaProvider:
    """The provider with this name. ValueError says which there are, NotConfigured what it lacks."""
    if name == LocalQuotaProvider.name:
        return LocalQuotaProvider(look_up)
    for built_in in (K8sQuotaProvider, SlurmQuotaProvider):
        if built_in.name == name:
            return built_in()
    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                found = point.load()
                provider = found() if isinstance(found, type) else found
            except NotConfigured:
                raise
            except Exception as error:  # another package's code may fail in any way
                raise ValueError(
                    f"quota provider {name!r} ({point.value}) cannot be loaded: {error}"
                ) from error
            if isinstance(provider, QuotaProvider):
                return provider
            raise ValueError(
                f"quota provider {name!r} ({point.value}) is no tgpu.quota.QuotaProvider"
            )
    installed = sorted(point.name for point in entry_points(group=GROUP))
    there = ", ".join(["local", "k8s", "slurm", *installed])
    raise ValueError(f"no quota provider {name!r}; there are: {there}")
