"""The options of `tgpu tenants create` and `change`, as fields of the API."""

from collections.abc import Mapping
from typing import Any, Final

from tgpu.cli.failures import bad_input
from tgpu.cli.options import read_option
from tgpu.cli.tenants import limits

# By parameter: the field, and how a limit is read.
_LIMITS: Final[Mapping[str, tuple[str, limits.Parse]]] = {
    "max_gpus": ("max_gpus", limits.parse_gpus),
    "max_gpu_mem": ("max_gpu_memory_mb", limits.parse_size),
    "max_cpus": ("max_cpu_cores", limits.parse_number),
    "max_mem": ("max_memory_mb", limits.parse_size),
    "max_jobs": ("max_concurrent_jobs", limits.parse_count),
    "max_priority": ("max_priority", limits.parse_count),
    "max_borrow": ("max_borrow_gpus", limits.parse_gpus),
    "max_lend": ("max_lend_gpus", limits.parse_gpus),
}
_BUDGETS: Final[Mapping[str, tuple[str, limits.Parse]]] = {
    "budget_hours": ("gpu_hours", limits.parse_number),
    "budget_cost": ("cost", limits.parse_number),
}
_TRAITS: Final = {
    "tier": "priority_tier",
    "weight": "fair_share_weight",
    "preemption": "allow_preemption",
    "enforce": "enforce_quota",
    "members_see": "members_see",
    "tenant_id": "id",
    "name": "name",
    "active": "active",
}
_NAMES: Final = {"cohort": "cohort", "run_as": "run_as"}  # `none` is no name


def tenant_fields(options: Mapping[str, Any]) -> dict[str, object]:
    """What was given, by the names of the parameters. Raises Failure."""
    fields = _read(options, _LIMITS)
    if options["max_gpus_of"]:
        by_type = read_option("--max-gpus-of", lambda _: limits.by_type(options["max_gpus_of"]), "")
        fields["max_gpus_by_type"] = by_type
    fields |= _budget(options)
    if options["system_user"]:
        if options["run_as"] is not None:
            raise bad_input("give --run-as or --system-user, not both")
        fields["system_user"] = True
    for parameter, field in _NAMES.items():
        name = options[parameter]
        if name is not None:
            fields[field] = "" if name.lower() == limits.NONE else name
    return fields | _given(options, _TRAITS)


def _read(
    options: Mapping[str, Any], table: Mapping[str, tuple[str, limits.Parse]]
) -> dict[str, object]:
    return limits.given_limits(
        {
            (field, "--" + parameter.replace("_", "-")): (options[parameter], parse)
            for parameter, (field, parse) in table.items()
        }
    )


def _given(options: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, object]:
    found = {field: options.get(parameter) for parameter, field in fields.items()}
    return {field: value for field, value in found.items() if value is not None}


def _budget(options: Mapping[str, Any]) -> dict[str, object]:
    """The whole budget: what it is changed to replaces what it was."""
    amounts = _read(options, _BUDGETS)
    if len(amounts) > 1:
        raise bad_input("give --budget-hours or --budget-cost, not both")
    rest = _given(options, {"budget_window": "window", "budget_action": "action"})
    if not amounts:
        if rest:
            raise bad_input("the budget has no amount", "add --budget-hours N or --budget-cost N")
        return {}
    (amount,) = amounts.values()
    if amount is None:
        return {"budget": None}
    if amount == 0:
        raise bad_input("a budget of 0 would let it use nothing", "see --max-gpus 0, or none")
    return {"budget": amounts | rest}
