"""Who may do what to a job: the whole table of roles, relations, actions and settings."""

import pytest

from tests.builders import a_job, a_tenant
from tgpu.core.errors import Forbidden, NotFound
from tgpu.core.model.events import TenantSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import MembersSee
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.caller import LOCAL, Principal, Role
from tgpu.service.identity.ownership import (
    Action,
    Relation,
    Sight,
    check,
    may,
    permission_for,
    relation_of,
    sight_of,
)

VISION, SPEECH = TenantId("vision"), TenantId("speech")
ADAS = a_job("1", tenant="vision", user="ada")
READS = {Action.SEE, Action.LOGS, Action.ENVIRONMENT}


def a_caller(role: Role, relation: Relation) -> Principal | None:
    """None: there is no such caller, since the role makes the relation."""
    leads = role in (Role.ADMIN, Role.OPERATOR)
    match relation:
        case Relation.STRANGER:
            return Principal("ada", role, frozenset({SPEECH}))
        case Relation.MEMBER:
            return None if leads else Principal("bob", role, frozenset({VISION}))
        case Relation.OWNER:
            return None if leads else Principal("ada", role, frozenset({VISION}))
        case Relation.TENANT_ADMIN:
            return Principal("pi", role, frozenset({VISION})) if leads else None
        case Relation.OPERATOR:
            return Principal("root", role) if leads else None


def expected(role: Role, relation: Relation, action: Action, members_see: MembersSee) -> bool:
    """Written out once more, plainly."""
    if relation is Relation.STRANGER:
        return False
    if role is Role.VIEWER and action not in READS:
        return False
    if relation is not Relation.MEMBER:
        return True
    if action is Action.SEE:
        return members_see is not MembersSee.NOTHING
    return action is Action.LOGS and members_see is MembersSee.LOGS


@pytest.mark.parametrize("members_see", MembersSee)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("role", Role)
def test_the_whole_table(role, relation, members_see):
    caller = a_caller(role, relation)
    if caller is None:
        return
    assert relation_of(caller, ADAS) is relation
    for action in Action:
        wanted = expected(role, relation, action, members_see)
        assert may(caller, action, ADAS, members_see) is wanted, action


def test_whoever_runs_a_service_that_asks_nobody_may_do_everything():
    assert all(may(LOCAL, action, ADAS, MembersSee.NOTHING) for action in Action)


def test_a_user_of_all_tenants_is_no_operator():
    everywhere = Principal("bob", Role.USER)
    assert relation_of(everywhere, ADAS) is Relation.MEMBER
    assert relation_of(Principal("ada", Role.USER), ADAS) is Relation.OWNER


def test_a_name_in_another_tenant_is_another_user():
    assert relation_of(Principal("ada", Role.USER, frozenset({SPEECH})), ADAS) is Relation.STRANGER


def test_a_job_of_a_version_before_has_no_owner_and_nobody_passes_for_them():
    old = a_job("1", tenant="vision")
    nameless = Principal("", Role.USER, frozenset({VISION}))
    assert relation_of(nameless, old) is Relation.MEMBER
    with pytest.raises(Forbidden, match="job 1 has no owner: only administrators of tenant vision"):
        check(a_state(), nameless, Action.CANCEL, old)


def test_a_job_that_calls_acts_as_its_user_and_on_itself():
    job = Principal("ada", Role.USER, frozenset({VISION}), kind="job", job_id="7")
    assert relation_of(job, ADAS) is Relation.OWNER
    nameless = Principal("7", Role.USER, frozenset({VISION}), kind="job", job_id="7")
    assert relation_of(nameless, a_job("7", tenant="vision")) is Relation.OWNER
    assert relation_of(nameless, a_job("8", tenant="vision", user="7")) is Relation.MEMBER


def a_state(members_see: MembersSee = MembersSee.JOBS) -> State:
    state = State()
    state.apply(TenantSet(0, a_tenant("vision", members_see=members_see)))
    state.apply(TenantSet(0, a_tenant("speech")))
    return state


@pytest.mark.parametrize("action", sorted(set(Action) - {Action.SEE}))
def test_a_refusal_names_the_owner_and_who_may(action):
    bob = Principal("bob", Role.USER, frozenset({VISION}))
    with pytest.raises(Forbidden) as refused:
        check(a_state(), bob, action, ADAS)
    assert str(refused.value) == (
        f"job 1 is ada's: only ada, administrators of tenant vision and operators may {action}"
    )


def test_what_may_not_be_seen_is_not_there():
    bob = Principal("bob", Role.USER, frozenset({VISION}))
    for state, caller in (
        (a_state(MembersSee.NOTHING), bob),
        (a_state(), Principal("ada", Role.USER, frozenset({SPEECH}))),
    ):
        with pytest.raises(NotFound):
            check(state, caller, Action.CANCEL, ADAS)


def test_a_role_is_refused_before_anything_is_told_of_the_job():
    viewer = Principal("eve", Role.VIEWER, frozenset({SPEECH}))
    with pytest.raises(Forbidden, match="a viewer may not submit or change jobs"):
        check(a_state(), viewer, Action.CANCEL, ADAS)


@pytest.mark.parametrize("action", Action)
def test_sight_agrees_with_the_decision(action):
    """Lists and streams ask `Sight`, one job at a time is asked by `may`: both say the same."""
    for members_see in MembersSee:
        for role in Role:
            for relation in Relation:
                caller = a_caller(role, relation)
                if caller is not None:
                    seen = sight_of(a_state(members_see), caller).sees_job(ADAS)
                    assert seen is may(caller, Action.SEE, ADAS, members_see)
    assert permission_for(action) is not None


def test_a_narrower_sight_shows_nothing_more():
    sight = Sight(frozenset({VISION}), frozenset({VISION}), "ada")
    assert sight.within() is sight
    assert not sight.within("speech").sees(SPEECH, "ada")
    assert sight.within("vision", "speech").sees(VISION, "ada")
    assert not sight.within("vision").sees(VISION, "bob")
    assert not Sight(None, frozenset({VISION}), "").sees(VISION, "")
