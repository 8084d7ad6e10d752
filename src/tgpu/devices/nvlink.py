"""Groups of GPUs that reach each other over NVLink, from who is wired to what. Pure."""

from collections.abc import Iterable, Mapping


def nvlink_groups(
    endpoints: Mapping[int, Iterable[str]], direct: Iterable[tuple[int, int]] = ()
) -> dict[int, int]:
    """The group of each GPU that has a peer; a GPU without one is left out.

    `endpoints` lists per GPU index the PCI bus ids on its NVLinks: its own, and those of GPUs or
    switches at the far ends. GPUs that share one are joined, so a switch joins all its GPUs.
    `direct` are pairs known to be joined by other means. Groups are numbered from 0 in the order
    of their lowest GPU.
    """
    parent = {index: index for index in endpoints}
    first_at: dict[str, int] = {}
    for index in sorted(endpoints):
        for endpoint in endpoints[index]:
            _join(parent, first_at.setdefault(endpoint, index), index)
    for one, other in direct:
        _join(parent, one, other)
    return _numbered(parent)


def _root(parent: dict[int, int], index: int) -> int:
    while parent[index] != index:
        parent[index] = parent[parent[index]]
        index = parent[index]
    return index


def _join(parent: dict[int, int], one: int, other: int) -> None:
    low, high = sorted((_root(parent, one), _root(parent, other)))
    parent[high] = low  # the lowest GPU is the root, which makes the numbering stable


def _numbered(parent: dict[int, int]) -> dict[int, int]:
    members: dict[int, list[int]] = {}
    for index in sorted(parent):
        members.setdefault(_root(parent, index), []).append(index)
    shared = [group for group in members.values() if len(group) > 1]
    return {index: number for number, group in enumerate(shared) for index in group}
