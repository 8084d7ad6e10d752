from tgpu.devices.nvlink import nvlink_groups


def test_gpus_without_links_are_in_no_group() -> None:
    assert nvlink_groups({0: ["gpu0"], 1: ["gpu1"]}) == {}


def test_a_link_between_two_gpus_joins_them() -> None:
    assert nvlink_groups({0: ["gpu0", "gpu1"], 1: ["gpu1", "gpu0"], 2: ["gpu2"]}) == {0: 0, 1: 0}


def test_one_side_of_a_link_is_enough() -> None:
    assert nvlink_groups({0: ["gpu0"], 1: ["gpu1", "gpu0"]}) == {0: 0, 1: 0}


def test_gpus_on_one_switch_are_joined() -> None:
    wiring = {index: [f"gpu{index}", "switch"] for index in range(4)}
    assert nvlink_groups(wiring) == dict.fromkeys(range(4), 0)


def test_a_chain_of_links_is_one_group() -> None:
    wiring = {0: ["gpu0", "gpu3"], 1: ["gpu1"], 2: ["gpu2", "gpu3"], 3: ["gpu3"]}
    assert nvlink_groups(wiring) == {0: 0, 2: 0, 3: 0}


def test_groups_are_numbered_by_their_lowest_gpu() -> None:
    wiring = {3: ["b"], 2: ["a"], 1: ["b"], 0: ["a"], 4: ["c"]}
    assert nvlink_groups(wiring) == {0: 0, 2: 0, 1: 1, 3: 1}


def test_pairs_known_by_other_means_are_joined() -> None:
    assert nvlink_groups({0: [], 1: [], 2: []}, [(2, 1)]) == {1: 0, 2: 0}
