"""Files with secrets that everybody could read stop the start of a service with callers."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tgpu.app.refusal import CannotServe
from tgpu.app.secret_files import check_secret_files
from tgpu.settings import Settings, load_with_origins


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can pass through, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="tgpu-files-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def some_settings(place: Path, **sections: Any) -> Settings:
    data = place / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    given: dict[str, Any] = {"data_dir": str(data), "auth": {"enabled": True}, **sections}
    return Settings.model_validate(given)


def a_file(place: Path, mode: int) -> Path:
    path = place / "secret"
    path.write_text("x" * 32)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("key", ["api.tls_key", "auth.jwt_secret_file"])
def test_a_secret_that_everybody_can_read_is_refused(place: Path, key: str) -> None:
    section, _, name = key.partition(".")
    path = a_file(place, 0o644)
    content = {name: str(path)} | ({"enabled": True} if section == "auth" else {})
    settings = some_settings(place, **{section: content})
    with pytest.raises(CannotServe, match=f"{key}.*chmod o-r {path}"):
        check_secret_files(settings)
    path.chmod(0o640)
    check_secret_files(settings)


def test_a_folder_on_the_way_protects_it_too(place: Path) -> None:
    settings = some_settings(
        place, auth={"enabled": True, "jwt_secret_file": str(a_file(place, 0o644))}
    )
    place.chmod(0o700)
    check_secret_files(settings)


def test_a_link_is_followed_to_what_it_means(place: Path) -> None:
    link = place / "link"
    os.symlink(a_file(place, 0o600), link)
    check_secret_files(some_settings(place, auth={"enabled": True, "jwt_secret_file": str(link)}))


def test_a_settings_file_is_looked_at_where_it_holds_secrets(place: Path) -> None:
    config = place / "x.yaml"
    config.write_text(
        f"data_dir: {place}/data\nauth: {{enabled: true}}\n"
        "database: {url: 'postgresql://u:p@localhost/x'}\n"
    )
    config.chmod(0o644)
    loaded = load_with_origins(config, {}, {})
    assert loaded.secrets_from(config) == ["database.url"]
    with pytest.raises(CannotServe, match=r"settings file, which holds database\.url"):
        check_secret_files(loaded.settings, config, loaded.secrets_from(config))
    check_secret_files(loaded.settings, config, [])


def test_a_data_directory_that_everybody_can_write_is_refused(place: Path) -> None:
    settings = some_settings(place)
    (place / "data").chmod(0o777)
    with pytest.raises(CannotServe, match="can be written by everybody"):
        check_secret_files(settings)


def test_the_owners_own_service_does_not_mind(place: Path) -> None:
    tls = {"tls_key": str(a_file(place, 0o644))}
    check_secret_files(some_settings(place, auth={"enabled": False}, api=tls))
