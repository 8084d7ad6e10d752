"""`auth.map`: which rule decides about whom."""

import pytest

from tgpu.service.identity.caller import Role
from tgpu.service.identity.user_map import MapRule, UserMap

MAP = UserMap(
    (
        MapRule((), Role.ADMIN, group="gpu-admins"),
        MapRule(("vision",), group="vision-team"),
        MapRule(("speech",), group="speech-team"),
        MapRule(("vision",), Role.VIEWER, group="auditors"),
        MapRule(("teaching",), user="stud-*"),
        MapRule(("labs",), group="lab-?"),
        MapRule(("speech",), user="dora"),
        MapRule(("guests",)),
    )
)


@pytest.mark.parametrize(
    ("user", "groups", "tenants", "role", "how"),
    [
        ("ada", {"vision-team"}, {"vision"}, "user", "group vision-team"),
        (
            "ada",
            {"speech-team", "vision-team", "users"},
            {"vision", "speech"},
            "user",
            "group vision-team, group speech-team",
        ),
        # By name beats by group, whatever the order.
        ("dora", {"vision-team"}, {"speech"}, "user", "user dora"),
        # The first gives the role; rules of another role add nothing.
        ("boss", {"vision-team", "gpu-admins"}, None, "admin", "group gpu-admins"),
        ("eve", {"speech-team", "auditors"}, {"speech"}, "user", "group speech-team"),
        ("eve", {"auditors"}, {"vision"}, "viewer", "group auditors"),
        # Patterns come after names, and add up among themselves.
        ("stud-1", {"vision-team"}, {"vision"}, "user", "group vision-team"),
        ("stud-1", {"lab-a"}, {"teaching", "labs"}, "user", "user stud-*, group lab-?"),
        ("kim", {"lab-ab"}, {"guests"}, "user", "default"),
        ("kim", set(), {"guests"}, "user", "default"),
    ],
)
def test_the_most_specific_rules_decide(user, groups, tenants, role, how):
    found = MAP.of(user, groups)
    assert found is not None
    assert (found.tenants, found.role, found.how) == (tenants, Role(role), f"auth.map: {how}")


def test_without_a_rule_that_fits_nobody_belongs_anywhere():
    assert UserMap((MapRule(("vision",), user="ada"),)).of("eve", {"ada"}) is None
    assert UserMap().of("eve", set()) is None


def test_all_tenants_are_all_however_many_are_named_beside():
    rules = (MapRule(("*",), user="a*"), MapRule(("vision",), user="*"))
    found = UserMap(rules).of("ada", ())
    assert found is not None
    assert found.tenants is None


def test_groups_are_asked_for_only_where_a_rule_needs_them():
    assert MAP.asks_for_groups
    assert MAP.groups == ["gpu-admins", "vision-team", "speech-team", "auditors", "lab-?"]
    assert not UserMap((MapRule(("vision",), user="ada"),)).asks_for_groups
