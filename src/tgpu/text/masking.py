"""Masks secrets in text, found by name and by format.

Pure, and for everybody: the API, the log, notices and the command line. What is found:

- values of variables, options and parameters whose names say so: `HF_TOKEN=…`, `--db-password …`;
- passwords in addresses, and what their queries call a key, token or signature;
- tokens of well-known shapes, and blocks with private keys;
- the password options of some programs: `mysql -p…`, `sshpass -p …`, `curl -u user:…`.

Nothing is guessed by how random it looks: hashes, UUIDs and names of models come through unharmed.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

MASK: Final = "******"
# What is on record encrypted, see service/secrets/sealing.py: the key's name, and the text.
SEALED: Final = re.compile(r"sealed:([0-9a-f]{8}):([A-Za-z0-9_-]{22,}):")
Hide = Callable[[str], str]

# Variables: any that could be one. The value of a harmless one is no loss.
_VARIABLE: Final = re.compile(
    r"(?i)(key|token|secret|passw|pwd|credential|auth|cookie|private|dsn)"
)
# Options and parameters: the last part must say so, or every `--tokenizer` would be hidden.
_LAST: Final = frozenset(
    {"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "credential"}
    | {"credentials", "authtoken", "accesstoken"}
)
_KEYS: Final = frozenset({"api", "access", "secret", "private", "account", "auth", "encryption"})
# Of language models, which have tokens of another kind.
_HARMLESS: Final = frozenset(
    {"pad", "eos", "bos", "unk", "mask", "sep", "cls", "stop", "per", "next", "special", "image"}
)
_PARTS: Final = re.compile(r"[-_.]+|(?<=[a-z])(?=[A-Z])")
# What stands for a value that is elsewhere: $NAME, {name}, <name>.
_STAND_IN: Final = re.compile(r"\$\{?\w+\}?|\{\w+\}|<[^>]*>|-|\*+|")
_SHORTEST_GIVEN: Final = 4  # the same of one that was said to be a secret
_SHORTEST: Final = 6  # characters of a value that is looked for elsewhere: shorter ones are words


def _first(names: Iterable[str]) -> str:
    return "|".join(names)


# Everything has a bound: a text is made by others, and must not take longer than it is long.
_NAME: Final = r"[A-Za-z][\w.-]{0,80}"
_VALUE: Final = r"""(?:"[^"]*"|'[^']*'|[^\s'",;&|)]+)"""
# `--name value`, `--name=value`, and the same as Python writes a list.
_OPTION: Final = re.compile(
    rf"(?P<before>--?(?P<name>{_NAME})(?:=|\s+|['\"],\s*)['\"]?)(?P<value>{_VALUE})"
)
_ASSIGNED: Final = re.compile(
    rf"(?P<before>(?<![\w?&/.-])(?P<name>{_NAME})['\"]?\s?[=:]\s?)(?P<value>{_VALUE})"
)
_LOGIN: Final = re.compile(
    r"(?P<before>(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^:/@\s'\"]{0,200}:)(?P<value>[^@/\s'\"]{1,300})(?=@)"
)
_QUERY: Final = re.compile(
    r"(?i)(?P<before>[?&;](?:[\w-]{0,80}(?:token|secret|password|passwd|signature|credential)"
    r"|sig|key|api_?key|access_?key|pwd|auth)=)(?P<value>[^&\s'\"#]+)"
)
_HOOK: Final = re.compile(
    r"(?P<before>https://(?:hooks\.slack\.com/services|(?:\w+\.)?discord(?:app)?\.com/api/webhooks"
    r"|[\w.-]+\.webhook\.office\.com)/)(?P<value>[^\s'\"?]+)"
)
_BEARER: Final = re.compile(
    r"(?P<before>\b(?:[Bb]earer|[Bb]asic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})"
)
_AUTHORIZATION: Final = re.compile(
    r"(?P<before>(?i:authorization['\"]?\s?[:=]\s?['\"]?(?:[A-Za-z][\w-]{0,30}\s+)?))"
    r"(?P<value>[A-Za-z0-9._~+/=-]{8,})"
)
_TOKENS: Final = re.compile(
    r"(?P<before>(?<![A-Za-z0-9]))(?P<value>"
    + _first(
        (
            r"gh[pousr]_[A-Za-z0-9]{20,}",
            r"github_pat_[A-Za-z0-9_]{20,}",
            r"glpat-[A-Za-z0-9_-]{16,}",
            r"hf_[A-Za-z0-9]{20,}",
            r"sk-(?:proj-|ant-[a-z]+\d*-|svcacct-|admin-|or-v1-)[A-Za-z0-9_-]{20,}",
            r"sk-[A-Za-z0-9]{20,}[A-Za-z0-9_-]*",
            r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
            r"gl(?:dt|rt|ptt|cbt|soat)-[A-Za-z0-9_-]{16,}",
            r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
            r"nvapi-[A-Za-z0-9_-]{40,}",
            r"(?:gsk|r8)_[A-Za-z0-9]{30,}",
            r"ya29\.[A-Za-z0-9_-]{20,}",
            r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
            r"(?:shpat|shpss|shpca)_[a-f0-9]{32}",
            r"dop_v1_[a-f0-9]{64}",
            r"xapp-\d-[A-Za-z0-9-]{10,}",
            r"AGE-SECRET-KEY-1[0-9A-Z]{30,}",
            r"\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
            r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
            r"AIza[A-Za-z0-9_-]{35}",
            r"xox[abeprs]-[A-Za-z0-9-]{10,}",
            r"npm_[A-Za-z0-9]{36}",
            r"pypi-[A-Za-z0-9_-]{50,}",
            r"eyJ[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
            r"tgpu_[A-Za-z0-9]+_[A-Za-z0-9_-]{16,}",
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        )
    )
    + ")",
    re.DOTALL,
)
# Programs with a password option of their own: with the value in the same word, or in the next.
_PROGRAMS: Final = (
    (r"(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|7z|7za)", r"-p(?=\S)"),
    (r"sshpass", r"-p\s*"),
    (r"(?:docker|podman)\s+login", r"-p\s+"),
    (r"redis-cli", r"-a\s+"),
    (r"zip", r"-P\s+"),
    (r"(?:ldapsearch|ldapadd|ldapmodify)", r"-w\s+"),
    (r"curl", r"(?:-u\s*|--user[ =])[^:\s]+:"),
    (r"openssl", r"pass:"),
)
_OF_PROGRAMS: Final = tuple(
    re.compile(
        r"(?P<before>(?:^|[\s/'\"])"
        + program
        + rf"\s(?:[^|;&]{{0,300}}?\s)?{option}['\"]?)(?P<value>[^\s'\"]+)"
    )
    for program, option in _PROGRAMS
)
# A text without any of these has nothing to hide, and most have none.
_HINT: Final = re.compile(
    r"://|=|:|-[-puPaw]|gh[pousr]_|github_pat_|glpat-|hf_|sk-|AKIA|ASIA|AIza|xox|npm_|pypi-|eyJ|tgpu_"
    r"|[Bb]earer|[Bb]asic|PRIVATE KEY|[srp]k_|gl\w{2,4}-|dckr_|nvapi-|gsk_|r8_|ya29|SG\.|shp|dop_v1"
    r"|xapp-|AGE-SECRET"
)


def is_secret_variable(name: str) -> bool:
    """Whether the value of a variable of this name is nobody's business."""
    return _VARIABLE.search(name) is not None


def is_secret_option(name: str) -> bool:
    """The same of an option, a parameter or the name before a `=` on a command line."""
    parts = [part.lower() for part in _PARTS.split(name) if part]
    if not parts:
        return False
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last == "key":
        return before in _KEYS
    return last in _LAST and before not in _HARMLESS


def mask_text(text: str, hide: Hide = lambda _: MASK) -> str:
    """A text with every secret in it hidden. Texts without one come back as they are."""
    if not _HINT.search(text):
        return text
    if "sealed:" in text:
        text = SEALED.sub(MASK, text)
    text = _hidden(_TOKENS, text, hide)
    if "://" in text:
        text = _hidden(_HOOK, _hidden(_QUERY, _hidden(_LOGIN, text, hide), hide), hide)
    text = _hidden(_AUTHORIZATION, _hidden(_BEARER, text, hide), hide)
    for pattern in _OF_PROGRAMS:
        text = _hidden(pattern, text, hide)
    text = _hidden(_OPTION, text, hide, is_secret_option)
    return _hidden(_ASSIGNED, text, hide, is_secret_option)


def mask_argv(argv: Sequence[str], hide: Hide = lambda _: MASK) -> tuple[str, ...]:
    """The words of a command line, the secrets in them and between them hidden."""
    words: list[str] = []
    for word in argv:
        before = words[-1] if words else ""
        if _takes_secret(before) and not _STAND_IN.fullmatch(word) and not word.startswith("--"):
            words.append(hide(word))
            continue
        masked = mask_text(word, hide)
        if words and masked == word and not _STAND_IN.fullmatch(word):
            masked = _after(words, word, hide)
        words.append(masked)
    return tuple(words)


def mask_variables(
    variables: Iterable[tuple[str, str]], hide: Hide = lambda _: MASK
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, hide(value) if value and is_secret_variable(name) else mask_text(value, hide))
        for name, value in variables
    )


def secret_values(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Values of secret variables, to be looked for elsewhere. The longest first: one may be in
    another."""
    found = {
        value
        for name, value in variables.items()
        if is_secret_variable(name) and len(value) >= _SHORTEST and not _is_plain(value)
    }
    return tuple(sorted(found, key=len, reverse=True))


def given_values(secrets: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Values that somebody said are secret, whatever they look like. The longest first."""
    found = {value for _, value in secrets if len(value) >= _SHORTEST_GIVEN}
    return tuple(sorted(found, key=len, reverse=True))


def mask_values(text: str, values: Iterable[str], hide: Hide = lambda _: MASK) -> str:
    """A text in which these very values are hidden."""
    for value in values:
        if value in text:
            text = text.replace(value, hide(value))
    return text


def _takes_secret(word: str) -> bool:
    return word.startswith("-") and "=" not in word and is_secret_option(word.lstrip("-"))


def _after(words: Sequence[str], word: str, hide: Hide) -> str:
    """As it would be hidden after the words before it: `sshpass -p X`."""
    line = f"{words[0]} {words[-1]} {word}" if len(words) > 1 else f"{words[0]} {word}"
    for pattern in _OF_PROGRAMS:
        found = pattern.search(line)
        if found is not None and found.end() == len(line) and word.endswith(found["value"]):
            return word.removesuffix(found["value"]) + hide(found["value"])
    return word


def _is_plain(value: str) -> bool:
    """A path, a number or a yes: variables such as SSH_AUTH_SOCK and XAUTHORITY hold those."""
    return value.startswith("/") or value.isdigit() or (value.isalpha() and value.islower())


def _hidden(
    pattern: re.Pattern[str], text: str, hide: Hide, wants: Callable[[str], bool] | None = None
) -> str:
    def one(found: re.Match[str]) -> str:
        value = found["value"]
        if _STAND_IN.fullmatch(value) or (wants is not None and not wants(found["name"])):
            return found[0]
        quote = value[0] if value[0] in "'\"" and len(value) > 1 else ""
        return f"{found['before']}{quote}{hide(value.strip(quote) if quote else value)}{quote}"

    return pattern.sub(one, text)
