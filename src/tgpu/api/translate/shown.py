"""A job's fields as they are shown, with secrets masked for everybody, its owner included.

The original is for running the job alone. A secret that is found in one place is hidden in the
others as well.
"""

from dataclasses import replace
from functools import lru_cache

from tgpu.core.model.job import NO_DETAIL, Detail
from tgpu.text.masking import (
    MASK,
    given_values,
    is_secret_option,
    mask_argv,
    mask_text,
    mask_values,
    mask_variables,
    secret_values,
)


@lru_cache(maxsize=4096)  # lists show the same jobs again and again, and arrays share theirs
def shown_detail(detail: Detail) -> Detail:
    if detail is NO_DETAIL:
        return detail
    secrets = secrets_in(detail)

    def shown(text: str) -> str:
        return mask_values(mask_text(text), secrets)

    return replace(
        detail,
        name=shown(detail.name),
        argv=tuple(mask_values(word, secrets) for word in mask_argv(detail.argv)),
        cwd=shown(detail.cwd),
        image=shown(detail.image),
        env=tuple((name, mask_values(v, secrets)) for name, v in mask_variables(detail.env)),
        params=tuple(
            (name, MASK if is_secret_option(name) else shown(value))
            for name, value in detail.params
        ),
        secrets=tuple((name, MASK) for name, _ in detail.secrets),
    )


def shown_text(text: str, detail: Detail) -> str:
    """A sentence about a job: it may quote its command or its log."""
    return mask_values(mask_text(text), secrets_in(detail))


@lru_cache(maxsize=4096)
def secrets_in(detail: Detail) -> tuple[str, ...]:
    """Its secrets themselves, to be looked for elsewhere."""
    found: dict[str, str] = {}

    def note(value: str) -> str:
        found[f"token {value}"] = value
        return MASK

    mask_argv(detail.argv, note)
    mask_variables(detail.env, note)
    given = given_values(detail.secrets)
    return tuple(sorted({*secret_values(found), *given}, key=len, reverse=True))
