"""The plug-in surface for quotas, and the gate that asks a provider before a job starts."""

from collections.abc import Callable, Collection
from importlib.metadata import EntryPoint

import pytest

from tests.builders import a_job, a_placement, a_state, submit
from tgpu import quota
from tgpu.core.model.job import JobClass, class_of
from tgpu.core.model.plan import Plan, Start
from tgpu.core.state.cluster_state import State
from tgpu.quota import (
    JobTypeEnum,
    LocalQuotaProvider,
    NotConfigured,
    QuotaInfo,
    QuotaProvider,
    Resources,
    load_quota_provider,
)
from tgpu.service.accounting.quota_gate import QuotaGate

COMMAND = JobTypeEnum.COMMAND
KNOWN = {
    "t": QuotaInfo("t", cpu_quota=8, memory_quota=16, gpu_quota=2, used_gpu=1.5),
    "free": QuotaInfo("free", gpu_quota=0, enforce_quota=False),
    "open": QuotaInfo("open"),
}


class Counting(QuotaProvider):
    """Lets each project have so many GPUs."""

    name = "counting"

    def __init__(self, gpus: float = 1):
        self.gpus = gpus
        self.used = 0.0
        self.is_broken = False

    def get_quota(self, project_id):
        return QuotaInfo(project_id, gpu_quota=self.gpus, used_gpu=self.used)

    def check_quota(self, project_id, resources, job_type):
        return self.used + resources.gpu <= self.gpus

    def allocate_quota(self, project_id, resources, job_type):
        if self.is_broken:
            raise OSError("away")
        if not self.check_quota(project_id, resources, job_type):
            return False
        self.used += resources.gpu
        return True

    def release_quota(self, project_id, resources, job_type):
        if self.is_broken:
            raise OSError("away")
        self.used -= resources.gpu


class Unset(Counting):
    def __init__(self):
        raise NotConfigured("no server is set")


class Broken(Counting):
    def __init__(self):
        raise KeyError("server")


@pytest.fixture
def local() -> LocalQuotaProvider:
    return LocalQuotaProvider(KNOWN.get)


@pytest.fixture
def installed(monkeypatch):
    def install(**values: str) -> None:
        points = [EntryPoint(name, value, quota.GROUP) for name, value in values.items()]
        monkeypatch.setattr(quota, "entry_points", lambda group: points)

    install()
    return install


@pytest.mark.parametrize(
    ("project", "resources", "allowed"),
    [
        ("t", Resources(gpu=0.5), True),
        ("t", Resources(gpu=0.51), False),
        ("t", Resources(cpu=9), False),
        ("t", Resources(memory=17), False),
        ("t", Resources(cpu=8, memory=16), True),
        ("free", Resources(gpu=5), True),
        ("open", Resources(gpu=1000, cpu=1000, memory=1000), True),
        ("nobody", Resources(), False),
    ],
)
def test_the_local_provider_compares_with_the_books(local, project, resources, allowed):
    assert local.check_quota(project, resources, COMMAND) is allowed
    assert local.allocate_quota(project, resources, COMMAND) is allowed


def test_the_local_provider_shows_the_books(local):
    assert local.get_quota("t") == KNOWN["t"]
    assert local.get_quota("nobody") is None
    local.release_quota("t", Resources(gpu=1), COMMAND)
    assert local.get_quota("t") == KNOWN["t"]


@pytest.mark.parametrize(
    ("name", "variable"), [("k8s", "K8S_QUOTA_NAMESPACE"), ("slurm", "SLURM_ACCOUNT_PREFIX")]
)
def test_providers_whose_engine_is_missing_say_what_they_need(name, variable, installed):
    with pytest.raises(NotConfigured, match=f"quota provider {name} is not configured") as caught:
        load_quota_provider(name, KNOWN.get)
    assert variable in str(caught.value)
    assert "quota.provider: local" in str(caught.value)


def test_local_is_built_in(installed):
    assert isinstance(load_quota_provider("local", KNOWN.get), LocalQuotaProvider)


def test_an_installed_provider_is_found_by_its_name(installed):
    installed(ldap=f"{__name__}:Counting")
    assert isinstance(load_quota_provider("ldap", KNOWN.get), Counting)


def test_a_provider_may_say_that_it_is_not_configured(installed):
    installed(ldap=f"{__name__}:Unset")
    with pytest.raises(NotConfigured, match="no server is set"):
        load_quota_provider("ldap", KNOWN.get)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (f"{__name__}:Broken", "cannot be loaded: 'server'"),
        ("no_such_package_at_all:X", "cannot be loaded: No module named"),
        (f"{__name__}:KNOWN", "is no tgpu.quota.QuotaProvider"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_with_its_origin(installed, value, sentence):
    installed(bad=value)
    with pytest.raises(ValueError, match="quota provider 'bad'") as caught:
        load_quota_provider("bad", KNOWN.get)
    assert sentence in str(caught.value)


def test_an_unknown_name_lists_those_there_are(installed):
    installed(ldap=f"{__name__}:Counting")
    with pytest.raises(ValueError, match="there are: local, k8s, slurm, ldap"):
        load_quota_provider("nonesuch", KNOWN.get)


# -- the gate -----------------------------------------------------------------------------------

PLACE = a_placement(0)  # the gate does not look at it
JOBS = {
    "large": a_job("large", gpus=2),
    "small": a_job("small", gpus=1),
    "twin": a_job("twin", gpus=1),
}


def planner(*names: str) -> Callable[[Collection[JobClass]], Plan]:
    """Plans these jobs, without the closed classes."""

    def decide(closed: Collection[JobClass]) -> Plan:
        return Plan(
            tuple(Start(JOBS[n].job_id, PLACE) for n in names if class_of(JOBS[n]) not in closed)
        )

    return decide


def starts(plan: Plan) -> list[str]:
    return [str(start.job_id) for start in plan.starts]


@pytest.fixture
def state() -> State:
    state = a_state()
    submit(state, *JOBS.values())
    return state


def test_what_the_provider_allows_starts(state):
    provider = Counting(gpus=2)
    plan = QuotaGate(provider).plan(state, planner("small", "twin"))
    assert (starts(plan), provider.used) == (["small", "twin"], 2)


def test_what_it_refuses_is_planned_again_without_its_class(state):
    provider = Counting(gpus=1)
    asked: list[int] = []

    def decide(closed: Collection[JobClass]) -> Plan:
        asked.append(len(closed))
        return planner("small")(closed) if closed else planner("large")(closed)

    gate = QuotaGate(provider)
    assert starts(gate.plan(state, decide)) == ["small"]
    assert asked == [0, 1]
    assert gate.refused == {class_of(JOBS["large"])}
    assert provider.used == 1


def test_what_falls_out_of_the_second_plan_is_given_back(state):
    provider = Counting(gpus=1)

    def decide(closed: Collection[JobClass]) -> Plan:
        return Plan(()) if closed else planner("small", "large")(closed)

    assert starts(QuotaGate(provider).plan(state, decide)) == []
    assert provider.used == 0


def test_what_ended_is_given_back_once(state):
    provider = Counting()
    gate = QuotaGate(provider)
    gate.plan(state, planner("small"))
    for _ in range(2):
        gate.give(JOBS["small"].job_id)
    assert provider.used == 0


def test_a_provider_that_fails_refuses_and_its_trouble_is_kept_until_it_works(state):
    provider = Counting()
    gate = QuotaGate(provider)
    provider.is_broken = True
    assert starts(gate.plan(state, planner("small"))) == []
    assert gate.trouble == "OSError: away"
    assert gate.quota("t") is not None
    assert gate.trouble == "OSError: away"
    provider.is_broken = False
    assert starts(gate.plan(state, planner("small"))) == ["small"]
    assert gate.trouble is None


def test_a_provider_that_cannot_release_is_reported(state):
    provider = Counting()
    gate = QuotaGate(provider)
    gate.plan(state, planner("small"))
    provider.is_broken = True
    gate.give(JOBS["small"].job_id)
    assert gate.trouble == "OSError: away"


def test_the_local_provider_is_never_in_the_way(state):
    gate = QuotaGate(LocalQuotaProvider(lambda _: None))
    assert starts(gate.plan(state, planner("large"))) == ["large"]
    assert gate.take(JOBS["small"])
