"""Targets out of the settings."""

import pytest

from tgpu.notices.make import make_target
from tgpu.settings.notices import NoticeSettings

HOOK = {"kind": "webhook", "url_env": "HOOK"}


def made(environ=None, **fields):
    return make_target(NoticeSettings.model_validate(fields), environ or {})


async def test_every_kind_can_be_made():
    mail = {"kind": "mail", "host": "h", "sender": "a@x.org", "to": ["b@x.org"]}
    targets = [
        made(**mail),
        made({"HOOK": "https://example.org/x"}, **HOOK),
        made(kind="slack", url="https://hooks.slack.com/services/SECRET"),
        made(kind="desktop"),
    ]
    assert [target.where for target in targets] == [
        "h:587 to b@x.org",
        "https://example.org",
        "https://hooks.slack.com",
        "this desktop",
    ]
    for target in targets:
        await target.close()


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "ftp://x/SECRET", "https://", "http://x:no/", "https://a b/"]
)
def test_an_address_that_is_none_is_refused_without_being_shown(url):
    with pytest.raises(ValueError, match="url") as told:
        made({"HOOK": url}, **HOOK)
    assert "SECRET" not in str(told.value)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("none")
    for path in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ValueError, match=f"ca_file: {path}"):
            made(kind="slack", url="https://x", ca_file=str(path))
