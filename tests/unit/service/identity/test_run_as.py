"""Who a job runs as: callers of every kind, tenants and users that change, numbers in use."""

import pwd
from dataclasses import replace

import pytest

from tgpu.accounts.system import SystemAccounts, account_named, account_of
from tgpu.core.errors import Conflict, InvalidRequest
from tgpu.core.model.events import TenantSet
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Detail, Job, Options, Request
from tgpu.core.model.lifecycle import PENDING
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import GPU
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.rerun import is_owner, rerun_detail
from tgpu.service.identity.caller import LOCAL, Principal, Role
from tgpu.service.identity.local_users import MapSettings
from tgpu.service.identity.run_as import JobUsers, RunAsRules, UidsInUse, as_account, users_of
from tgpu.service.identity.user_map import MapRule, UserMap
from tgpu.store.api import StoredJob

RED, BLUE, DEFAULT = TenantId("red"), TenantId("blue"), TenantId("default")
NOBODY, GAMES = pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("games").pw_uid
BACKUP = pwd.getpwnam("backup").pw_uid
OF_ROOT = RunAsRules(shared=True, own_uid=0)
KEY = Principal("ci", Role.USER, frozenset({RED}), kind="key", key_id="k1")
ROOT = Principal("root", Role.ADMIN, uid=0, kind="uid")


def a_run_as(rules: RunAsRules, *tenants: Tenant) -> JobUsers:
    state = State()
    for tenant in tenants:
        state.apply(TenantSet(0, tenant))
    return JobUsers(state, rules, SystemAccounts())


def local(name: str, tenant: TenantId) -> Principal:
    uid = pwd.getpwnam(name).pw_uid
    return Principal(name, Role.USER, frozenset({tenant}), uid, "uid")


RED_AS_NOBODY = Tenant(RED, run_as="nobody")
BLUE_AS_GAMES = Tenant(BLUE, run_as="games")


# -- when it is submitted ------------------------------------------------------------------------


@pytest.mark.parametrize("caller", [KEY, ROOT], ids=["key", "root"])
async def test_who_is_no_local_user_runs_as_the_user_of_the_tenant(caller: Principal) -> None:
    account = await a_run_as(OF_ROOT, RED_AS_NOBODY).of_caller(caller, RED)
    assert account is not None
    assert account.uid == NOBODY


async def test_a_local_user_runs_as_themselves() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(DEFAULT), RED_AS_NOBODY)
    account = await run_as.of_caller(local("games", DEFAULT), DEFAULT)
    assert account is not None
    assert account.uid == GAMES


async def test_a_local_user_who_is_the_user_of_a_tenant_belongs_to_it() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(DEFAULT), RED_AS_NOBODY, Tenant(TenantId("games")))
    for uid, tenant in ((NOBODY, RED), (GAMES, TenantId("games")), (BACKUP, DEFAULT)):
        assert (await run_as.users.of(uid)).tenants == frozenset({tenant})
    with pytest.raises(InvalidRequest, match="of tenant red"):
        await run_as.of_caller(local("nobody", DEFAULT), DEFAULT)


async def test_without_authentication_jobs_run_as_the_owner_root_included() -> None:
    run_as = a_run_as(RunAsRules(own_uid=0), RED_AS_NOBODY)
    assert await run_as.of_caller(LOCAL, RED) is None
    assert await run_as.of_caller(ROOT, RED) is None


async def test_without_root_root_itself_is_nobody_else() -> None:
    """Only root can be somebody else: a number of another user would only fail at the start."""
    run_as = a_run_as(RunAsRules(own_uid=GAMES), Tenant(DEFAULT))
    assert await run_as.of_caller(ROOT, DEFAULT) is None


async def test_the_escape_runs_all_as_the_service_but_never_as_root() -> None:
    rules = RunAsRules(shared=True, as_service=True, own_uid=GAMES)
    assert await a_run_as(rules, Tenant(RED)).of_caller(KEY, RED) is None
    with pytest.raises(InvalidRequest):
        await a_run_as(replace(rules, own_uid=0), Tenant(RED)).of_caller(KEY, RED)


@pytest.mark.parametrize(
    ("tenant", "rules", "words"),
    [
        (Tenant(RED), OF_ROOT, "no user is set"),
        (Tenant(RED, run_as="root"), OF_ROOT, "may not run as root"),
        (Tenant(RED, run_as="games"), replace(OF_ROOT, own_uid=GAMES), "user of the service"),
        (Tenant(RED, run_as="no-such-user"), OF_ROOT, "there is no such user"),
        (Tenant(RED), replace(OF_ROOT, user="no-such-{tenant}"), "no-such-red"),
        (Tenant(RED, run_as="65534"), OF_ROOT, "there is no such user"),
    ],
)
async def test_a_tenant_without_a_user_that_will_do_is_told_what_to_set(
    tenant: Tenant, rules: RunAsRules, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        await a_run_as(rules, tenant, BLUE_AS_GAMES).of_caller(KEY, RED)
    assert refused.value.field == "tenant_id"
    assert "tgpu tenants change red --run-as USER" in refused.value.message


async def test_two_tenants_with_one_user_by_mapping_run_nothing() -> None:
    rules = replace(OF_ROOT, user="{tenant}")
    games = Tenant(TenantId("games"))
    run_as = a_run_as(rules, games, Tenant(RED, run_as="games"))
    with pytest.raises(InvalidRequest, match="user of another tenant too"):
        await run_as.of_caller(KEY, RED)


def test_one_user_for_all_serves_one_tenant_only() -> None:
    bare, default = [Tenant(RED), Tenant(BLUE)], Tenant(DEFAULT)
    assert dict(users_of(bare, "nobody")) == {}
    assert dict(users_of(bare[:1], "nobody")) == {RED: "nobody"}
    assert dict(users_of([*bare, default], "nobody")) == {DEFAULT: "nobody"}
    assert dict(users_of([*bare, BLUE_AS_GAMES], "t-{tenant}")) == {BLUE: "games", RED: "t-red"}


def test_a_second_name_of_a_user_is_no_second_user(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pwd.getpwnam("nobody")
    monkeypatch.setattr(pwd, "getpwnam", lambda name: found)
    account = account_named("somebody")
    assert account is not None
    assert account.name == "nobody"
    with pytest.raises(InvalidRequest, match="another name of user nobody"):
        a_run_as(OF_ROOT).check_name("somebody")


def test_tenants_that_are_set_share_no_user() -> None:
    run_as = a_run_as(replace(OF_ROOT, user="t-{tenant}"), RED_AS_NOBODY)
    with pytest.raises(Conflict, match="user nobody is that of tenant"):
        run_as.check_unique(run_as._state, [Tenant(BLUE, run_as="nobody")])
    with pytest.raises(Conflict, match="t-green"):
        run_as.check_unique(
            run_as._state, [Tenant(BLUE, run_as="t-green"), Tenant(TenantId("green"))]
        )
    run_as.check_unique(run_as._state, [BLUE_AS_GAMES, Tenant(RED)])


# -- when it starts --------------------------------------------------------------------------------


def of_key(uid: int | None, account: str) -> Detail:
    return Detail(argv=("id",), uid=uid, account=account, owner="key:k1")


def refusal(
    run_as: JobUsers, tenant: TenantId, detail: Detail, uids: UidsInUse | None = None
) -> str:
    account = None if detail.uid is None else account_of(detail.uid)
    return run_as.refusal(tenant, detail, account, uids or UidsInUse()) or ""


def test_a_job_starts_as_the_user_it_was_submitted_for() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY, BLUE_AS_GAMES)
    assert refusal(run_as, RED, of_key(NOBODY, "nobody")) == ""


@pytest.mark.parametrize("uid", [None, 0])
def test_nothing_starts_with_the_rights_of_the_service(uid: int | None) -> None:
    """Jobs of an older version wait in the store without a user."""
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    assert "with the rights of the service" in refusal(run_as, RED, Detail(uid=uid))
    by_service = a_run_as(RunAsRules(shared=True, own_uid=GAMES), Tenant(RED))
    assert "with the rights of the service" in refusal(by_service, RED, Detail(uid=GAMES))


def test_without_authentication_the_owners_jobs_start_as_ever() -> None:
    assert refusal(a_run_as(RunAsRules(own_uid=0)), DEFAULT, Detail()) == ""


def test_a_number_that_is_somebody_else_by_now_is_not_taken() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    assert "was tgpu-red" in refusal(run_as, RED, of_key(NOBODY, "tgpu-red"))
    alone = a_run_as(RunAsRules(own_uid=0), Tenant(RED))
    assert "was ada" in refusal(alone, RED, Detail(uid=NOBODY, account="ada", owner="uid:ada"))


def test_a_job_that_waits_does_not_start_as_a_user_its_tenant_has_no_more() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(RED, run_as="backup"))
    cause = refusal(run_as, RED, of_key(NOBODY, "nobody"))
    assert "jobs of tenant red now run as backup" in cause
    taken = a_run_as(OF_ROOT, Tenant(RED), Tenant(BLUE, run_as="nobody"))
    assert "another tenant" in refusal(taken, RED, of_key(NOBODY, "nobody"))
    # Whoever submitted it as themselves runs it as themselves.
    own = Detail(uid=NOBODY, account="nobody", owner="uid:nobody")
    assert refusal(run_as, RED, own) == ""


def test_what_root_submitted_was_lent_the_tenants_user() -> None:
    of_root = Detail(uid=NOBODY, account="nobody", owner="uid:root")
    assert refusal(a_run_as(OF_ROOT, RED_AS_NOBODY), RED, of_root) == ""
    changed = a_run_as(OF_ROOT, Tenant(RED, run_as="backup"))
    assert "now run as backup" in refusal(changed, RED, of_root)


def test_a_user_whose_jobs_of_another_tenant_still_run_starts_none() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    uids = UidsInUse()
    uids.take("7", NOBODY, BLUE)
    assert "still run as nobody" in refusal(run_as, RED, of_key(NOBODY, "nobody"), uids)
    uids.give("7")
    uids.give("7")
    assert refusal(run_as, RED, of_key(NOBODY, "nobody"), uids) == ""
    uids.take("8", NOBODY, RED)
    assert refusal(run_as, RED, of_key(NOBODY, "nobody"), uids) == ""


# -- when it is run again --------------------------------------------------------------------------


def stored(detail: Detail, tenant: TenantId = RED) -> StoredJob:
    job = Job(JobId("7"), tenant, 500, 0, Request(GPU))
    return StoredJob(1, job, detail, PENDING)


SECRETS = Detail(
    argv=("train",),
    cwd="/data",
    env_id="e1",
    env=(("TOKEN", "x"),),
    mail_to=("ada@example.org",),
    mail_on=("end",),
    owner="key:k1",
    user="ci",
    uid=NOBODY,
    account="nobody",
)


async def test_an_owner_runs_their_job_again_as_it_was() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    detail, with_environment = await rerun_detail(run_as, KEY, stored(SECRETS))
    assert with_environment
    assert detail == replace(SECRETS, rerun_of=JobId("7"))


async def test_another_member_inherits_neither_environment_nor_user() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(RED, run_as="games"))
    ada = replace(SECRETS, owner="uid:backup", uid=BACKUP, account="backup", user="backup")
    detail, with_environment = await rerun_detail(run_as, KEY, stored(ada))
    assert not with_environment
    assert (detail.argv, detail.cwd) == (("train",), "/data")
    assert (detail.env_id, detail.env, detail.mail_to, detail.mail_on) == (None, (), (), ())
    assert (detail.owner, detail.user) == ("key:k1", "ci")
    assert (detail.uid, detail.account) == (GAMES, "games")


async def test_a_local_member_runs_anothers_job_as_themselves() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(DEFAULT))
    ada = replace(SECRETS, owner="uid:backup", uid=BACKUP, account="backup")
    games = local("games", DEFAULT)
    detail, with_environment = await rerun_detail(run_as, games, stored(ada, DEFAULT))
    assert not with_environment
    assert (detail.uid, detail.account, detail.owner) == (GAMES, "games", "uid:games")


async def test_a_lease_of_another_is_taken_over_without_their_mail() -> None:
    run_as = a_run_as(OF_ROOT, Tenant(RED))
    lease = stored(replace(SECRETS, argv=()))
    lease = replace(lease, job=replace(lease.job, options=Options(lease=True)))
    detail, _ = await rerun_detail(run_as, replace(KEY, key_id="k2"), lease)
    assert (detail.owner, detail.mail_to, detail.uid) == ("key:k2", (), None)


async def test_a_key_of_the_same_name_is_not_the_owner() -> None:
    other = replace(KEY, key_id="k2")
    assert is_owner(KEY, SECRETS)
    assert not is_owner(other, SECRETS)
    assert not is_owner(KEY, replace(SECRETS, owner=""))


async def test_a_user_of_the_same_name_and_another_number_is_not_the_owner() -> None:
    mine = Detail(argv=("id",), owner="uid:games", uid=GAMES, account="games")
    assert is_owner(local("games", RED), mine)
    assert not is_owner(local("games", RED), replace(mine, uid=BACKUP))


async def test_an_admin_runs_it_again_for_its_owner() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    detail, with_environment = await rerun_detail(run_as, ROOT, stored(SECRETS))
    assert with_environment
    assert (detail.owner, detail.user, detail.uid) == ("key:k1", "ci", NOBODY)
    own = replace(SECRETS, owner="uid:games", uid=GAMES, account="games")
    detail, _ = await rerun_detail(run_as, ROOT, stored(own))
    assert (detail.owner, detail.uid) == ("uid:games", GAMES)


async def test_an_admin_lends_root_to_no_job_of_an_older_version() -> None:
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    detail, _ = await rerun_detail(run_as, ROOT, stored(replace(SECRETS, owner="", uid=None)))
    assert detail.uid == NOBODY


async def test_an_admin_of_some_tenants_is_a_member_like_others() -> None:
    bound = Principal("boss", Role.ADMIN, frozenset({RED}), kind="key", key_id="k9")
    run_as = a_run_as(OF_ROOT, RED_AS_NOBODY)
    detail, with_environment = await rerun_detail(run_as, bound, stored(SECRETS))
    assert not with_environment
    assert detail.owner == "key:k9"


def test_as_account_forgets_who_was_there_before() -> None:
    assert as_account(SECRETS, None).uid is None
    assert as_account(SECRETS, None).account == ""


# -- people who belong to several tenants --------------------------------------------------------

IN_BOTH = RunAsRules(
    shared=True, own_uid=0, users=MapSettings(UserMap((MapRule(("red", "blue"), user="games"),)))
)


def of_games(tenant: TenantId) -> Detail:
    return Detail(argv=("true",), uid=GAMES, account="games", owner="uid:games")


async def test_who_belongs_to_two_tenants_runs_jobs_of_both_as_themselves() -> None:
    run_as = a_run_as(IN_BOTH, Tenant(RED), Tenant(BLUE), Tenant(DEFAULT))
    for tenant in (RED, BLUE):
        account = await run_as.of_caller(local("games", tenant), tenant)
        assert account is not None
        assert account.uid == GAMES
    with pytest.raises(InvalidRequest, match="are of tenant blue, red, not of this one"):
        await run_as.of_caller(local("games", DEFAULT), DEFAULT)
    uids = UidsInUse()
    uids.take("1", GAMES, RED, is_own=True)
    assert refusal(run_as, BLUE, of_games(BLUE), uids) == ""


async def test_a_user_that_is_lent_to_a_tenant_shares_its_number_with_nobody() -> None:
    """Whoever runs as themselves meanwhile: what they run could read what the tenant's keys run."""
    run_as = a_run_as(IN_BOTH, RED_AS_NOBODY, Tenant(BLUE))
    lent, own = UidsInUse(), UidsInUse()
    lent.take("1", NOBODY, BLUE)
    assert "still run as nobody" in refusal(run_as, RED, of_key(NOBODY, "nobody"), lent)
    own.take("1", NOBODY, BLUE, is_own=True)
    assert "still run as nobody" in refusal(run_as, RED, of_key(NOBODY, "nobody"), own)
    own.take("2", NOBODY, RED)
    own.give("1")
    assert refusal(run_as, RED, of_key(NOBODY, "nobody"), own) == ""
    assert "still run as games" in refusal(run_as, BLUE, of_games(BLUE), held_by(GAMES, RED))


def held_by(uid: int, tenant: TenantId) -> UidsInUse:
    uids = UidsInUse()
    uids.take("9", uid, tenant)
    return uids


async def test_the_user_of_a_tenant_belongs_to_it_whatever_a_map_says() -> None:
    run_as = a_run_as(IN_BOTH, Tenant(RED), Tenant(BLUE), Tenant(TenantId("own"), run_as="games"))
    found = await run_as.users.of(GAMES)
    assert found.tenants == frozenset({TenantId("own")})
    assert found.how == "jobs of tenant own run as games"


async def test_a_job_of_somebody_who_left_the_tenant_submits_nothing_there() -> None:
    """Also where nobody is asked for a key: the job itself is still of that tenant."""
    rules = replace(IN_BOTH, shared=False)
    run_as = a_run_as(rules, Tenant(RED), Tenant(BLUE), Tenant(DEFAULT))
    job = replace(local("games", DEFAULT), kind="job", job_id="4")
    with pytest.raises(InvalidRequest, match="not of this one"):
        await run_as.of_caller(job, DEFAULT)
