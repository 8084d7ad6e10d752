from tgpu.pauses import Pauses


def test_each_pause_is_longer_up_to_the_longest() -> None:
    pauses, pause, seen = Pauses(1.0, 5.0), 1.0, []
    for _ in range(4):
        seen.append(pause)
        pause = pauses.after(pause)
    assert seen == [1.0, 2.0, 4.0, 5.0]
