"""Notices in the settings: what each kind needs, and that secrets stay out of sight."""

import json

import pytest

from tgpu.settings import (
    SettingsError,
    effective_values,
    load_settings,
    load_with_origins,
)
from tgpu.settings.notices import NoticeSettings, secret_of

NOBODY = {"HOME": "/nowhere"}
MAIL = {"kind": "mail", "host": "smtp.example.org", "sender": "a@x.org", "to": ["b@x.org"]}
HOOK = {"kind": "webhook", "url": "https://example.org/hook/SECRET"}


def load(*notices):
    return load_settings(None, {"notices": list(notices)}, NOBODY).notices


def problem_of(*notices) -> str:
    with pytest.raises(SettingsError) as told:
        load(*notices)
    return str(told.value)


def test_a_notice_is_called_by_its_kind_unless_named():
    assert [notice.name for notice in load(MAIL, {**MAIL, "name": "ops"})] == ["mail", "ops"]


def test_the_port_follows_the_security():
    ports = [load({**MAIL, "security": s})[0].smtp_port for s in ("starttls", "tls", "none")]
    assert ports == [587, 465, 25]
    assert load({**MAIL, "port": 2525})[0].smtp_port == 2525


def test_a_desktop_is_not_told_what_was_hours_ago():
    assert load({"kind": "desktop"})[0].retry_seconds == 360
    assert load(MAIL)[0].retry_seconds == 86_400


@pytest.mark.parametrize(
    ("notice", "problem"),
    [
        ({"kind": "pigeon"}, "kind must be one of mail, webhook, slack, desktop, not 'pigeon'"),
        ({"kind": "mail"}, "needs host and sender"),
        ({**MAIL, "to": []}, "needs to, a list of addresses, or for_jobs: true"),
        ({**MAIL, "to": ["nobody"]}, "must be an e-mail address such as ops@example.org"),
        ({**MAIL, "sender": "a@x.org\nBcc: b@x.org"}, "must be an e-mail address"),
        ({**MAIL, "user": "me"}, "needs one of password_env, password_file"),
        ({**MAIL, "password_env": "P"}, "has a password and no user"),
        ({**MAIL, "url": "https://x"}, "url does not apply to a notice of kind mail"),
        ({**MAIL, "job_domains": ["x.org"]}, "job_domains, which have no effect without for_jobs"),
        ({"kind": "webhook"}, "needs one of url, url_env, url_file"),
        ({**HOOK, "url_env": "U"}, "has url and url_env: leave out all but one"),
        ({**HOOK, "secret_env": "A", "secret_file": "/b"}, "leave out all but one"),
        ({**HOOK, "kind": "slack", "secret_env": "A"}, "secret_env does not apply to a notice of"),
        ({**HOOK, "events": ["ends"]}, "events[0] must be one of start, end, failure"),
        ({"kind": "desktop", "host": "x"}, "host does not apply to a notice of kind desktop"),
    ],
)
def test_a_wrong_notice_is_named_with_the_remedy(notice, problem):
    assert problem in problem_of(notice)


def test_two_of_one_name_are_refused():
    assert "'mail' is given twice" in problem_of(MAIL, MAIL)


def test_two_that_write_for_jobs_are_refused():
    first, second = ({**MAIL, "name": name, "for_jobs": True} for name in ("a", "b"))
    assert "owners would get all twice" in problem_of(first, second)


def test_the_address_of_a_webhook_is_shown_neither_by_the_settings_nor_by_a_mistake():
    loaded = load_with_origins(None, {"notices": [HOOK]}, NOBODY)
    shown = next(value for value in effective_values(loaded) if value.key == "notices")
    assert "SECRET" not in json.dumps(shown.value)
    assert "SECRET" not in repr(loaded.settings)
    assert "SECRET" not in problem_of({**HOOK, "url": ["https://x/SECRET"]})
    assert "SECRET" not in problem_of("https://x/SECRET")
    assert "SECRET" not in problem_of({**HOOK, "kind": "desktop"})


def test_every_kind_needs_nothing_that_it_refuses():
    made = NoticeSettings.model_validate({"kind": "desktop"})
    assert made.events == ("failure", "preemption", "idle", "gpu", "deadline", "budget")


def test_a_secret_comes_from_a_variable_or_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("of the file\n")
    assert secret_of({"S": "of the variable"}, "S", None, "password") == "of the variable"
    assert secret_of({}, None, file, "password") == "of the file"
    assert secret_of({}, None, None, "password") is None


def test_a_secret_that_is_not_there_is_named_by_its_place(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="password_env: the variable S is not set"):
        secret_of({}, "S", None, "password")
    with pytest.raises(ValueError, match="there is no such file"):
        secret_of({}, None, tmp_path / "none", "password")
    with pytest.raises(ValueError, match="is empty"):
        secret_of({}, None, tmp_path / "empty", "password")
