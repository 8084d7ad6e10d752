import pytest

from tgpu.engines.local.protocol import LineSplitter, decode, encode, encode_launch


def test_messages_arrive_as_sent_however_the_stream_is_cut() -> None:
    stream = encode("stop", [["a", 1]]) + encode("sync", 2)
    for cut in range(len(stream)):
        lines = LineSplitter()
        received = lines.feed(stream[:cut]) + lines.feed(stream[cut:])
        assert [decode(line) for line in received] == [["stop", [["a", 1]]], ["sync", 2]]


def test_a_launch_is_one_line_with_one_tab_whatever_the_command_holds() -> None:
    line = encode_launch(("a", 1, ""), 5, None, {"argv": ["tab\there", "line\nthere", "\udcff"]})
    assert (line.count(b"\n"), line.count(b"\t")) == (1, 1)


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"[1", b"7"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)
