"""What is hidden, and what must come through unharmed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.text.masking import (
    MASK,
    is_secret_option,
    mask_argv,
    mask_text,
    mask_values,
    mask_variables,
    secret_values,
)

GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"

TEXTS = [
    ("postgresql://me:hunter2@db:5432/x", f"postgresql://me:{MASK}@db:5432/x"),
    ("redis://:hunter2@cache:6379/0", f"redis://:{MASK}@cache:6379/0"),
    ("see https://x.org/a?token=abc&x=1", f"see https://x.org/a?token={MASK}&x=1"),
    ("https://x.org/a?x=1&sig=abc%3D", f"https://x.org/a?x=1&sig={MASK}"),
    ("https://x.org/?X-Amz-Signature=ab12", f"https://x.org/?X-Amz-Signature={MASK}"),
    ("https://hooks.slack.com/services/T1/B2/xyz", f"https://hooks.slack.com/services/{MASK}"),
    (f"clone with {GITHUB}", f"clone with {MASK}"),
    (f"https://{GITHUB}@github.com/a/b", f"https://{MASK}@github.com/a/b"),
    ("hf_" + "x" * 34, MASK),
    ("sk-" + "A" * 48, MASK),
    ("sk-proj-" + "A" * 48, MASK),
    ("sk-ant-api03-" + "A" * 40, MASK),
    ("AKIAIOSFODNN7EXAMPLE", MASK),
    ("xoxb-123456789012-abcdef", MASK),
    ("glpat-" + "a" * 20, MASK),
    ("sk-proj-" + "A_b-" * 12, MASK),
    ("sk_live_" + "a1" * 12, MASK),
    ("gldt-" + "a" * 20, MASK),
    ("dckr_pat_" + "aB_-" * 7, MASK),
    ("nvapi-" + "aB_-" * 16, MASK),
    ("gsk_" + "a1" * 26, MASK),
    ("r8_" + "a1" * 19, MASK),
    ("ya29." + "a0-_" * 10, MASK),
    ("SG." + "a" * 22 + "." + "b" * 43, MASK),
    ("shpat_" + "0a" * 16, MASK),
    ("dop_v1_" + "0a" * 32, MASK),
    ("xapp-1-A012-345-abcdef", MASK),
    ("AGE-SECRET-KEY-1" + "Q" * 58, MASK),
    ("notify 123456789:AA" + "x" * 33, f"notify {MASK}"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nxyz\n-----END PGP PRIVATE KEY BLOCK-----", MASK),
    ("curl -H 'Authorization: token abcdefgh12'", f"curl -H 'Authorization: token {MASK}'"),
    ("Authorization: abcdefgh12", f"Authorization: {MASK}"),
    (JWT, MASK),
    ("tgpu_k1a2b3c4_" + "z" * 43, MASK),
    (PEM, MASK),
    ("Authorization: Bearer abcdefgh12", f"Authorization: Bearer {MASK}"),
    ("HF_TOKEN=abc python x.py", f"HF_TOKEN={MASK} python x.py"),
    ("export AWS_SECRET_ACCESS_KEY='a b'", f"export AWS_SECRET_ACCESS_KEY='{MASK}'"),
    ("python x.py --db-password hunter2 --lr 1", f"python x.py --db-password {MASK} --lr 1"),
    ("x --api-key=abc", f"x --api-key={MASK}"),
    ("mysql -u root -phunter2 db", f"mysql -u root -p{MASK} db"),
    ("sshpass -p hunter2 ssh a", f"sshpass -p {MASK} ssh a"),
    ("curl -u me:hunter2 https://x.org", f"curl -u me:{MASK} https://x.org"),
    ("redis-cli -a hunter2 ping", f"redis-cli -a {MASK} ping"),
    ("openssl enc -pass pass:hunter2", f"openssl enc -pass pass:{MASK}"),
    ("['x', '--token', 'abc']", f"['x', '--token', '{MASK}']"),
    ('{"password": "hunter2"}', f'{{"password": "{MASK}"}}'),
]
UNHARMED = [
    "python train.py --lr 0.1 --epochs 100 --max-tokens 4096 --tokenizer bert-base",
    "python x.py --pad-token [PAD] --eos_token=</s> --token-count 5 --sort-key name",
    "torchrun --nproc-per-node=8 main.py --key-frames 12 --author ada model.pad_token=0",
    "/data/keys/run-2024-01-01/authors.json",
    "python sk_learn_demo.py --task-id 12345678:90 --r8_bits 4 glue-benchmark SG.1",
    "the authorization of the tenant is missing",
    "d41d8cd98f00b204e9800998ecf8427e",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "0c8f4f7e-9c1d-4a7e-8a73-6f1a2f1d9b11",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "git clone ssh://git@github.com/a/b.git",
    "https://example.org/path?page=2&q=tokens",
    "s3://bucket/checkpoints/step=1000/model.safetensors",
    "sk-learn-gradient-boosting-classifier-v2",
    "hf_transformers_finetuning_script",
    "python x.py --token $HF_TOKEN --password {password} PASSWORD=$PW",
    "mysql -h db -P 3306 mydb",
    "curl -u ada https://x.org",
    "docker run -p 8080:80 nginx",
    "python -p profile.out x.py",
    "CUDA_VISIBLE_DEVICES=0,1 SEED=7 python x.py",
    "exit code 1: FileNotFoundError: [Errno 2] No such file or directory: 'x.py'",
    "quota exceeded for tenant a: GPUs requested=8, quota=4, current=2",
]


@pytest.mark.parametrize(("text", "shown"), TEXTS)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert mask_text(text) == shown
    assert mask_text(shown) == shown  # and stay so


@pytest.mark.parametrize("text", UNHARMED)
def test_ordinary_texts_come_through_unharmed(text: str) -> None:
    assert mask_text(text) == text
    assert mask_argv(text.split()) == tuple(text.split())


@given(st.uuids())
def test_no_uuid_is_taken_for_a_secret(value: object) -> None:
    assert mask_text(str(value)) == str(value)


@given(st.binary(min_size=16, max_size=64))
def test_no_hash_is_taken_for_a_secret(value: bytes) -> None:
    assert mask_text(value.hex()) == value.hex()
    assert mask_argv(["git", "checkout", value.hex()]) == ("git", "checkout", value.hex())


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz./_", min_size=1), max_size=6))
def test_words_and_paths_come_through_unharmed(words: list[str]) -> None:
    assert mask_argv(words) == tuple(words)


@given(st.text(max_size=60))
def test_any_text_is_masked_without_harm_and_only_once(text: str) -> None:
    assert mask_text(mask_text(text)) == mask_text(text)


ARGVS = [
    (["x", "--token", "abc", "y"], ("x", "--token", MASK, "y")),
    (["x", "--token=abc"], ("x", f"--token={MASK}")),
    (["x", "--password", "--next"], ("x", "--password", "--next")),
    (["mysql", "-phunter2"], ("mysql", f"-p{MASK}")),
    (["/usr/bin/sshpass", "-p", "hunter2"], ("/usr/bin/sshpass", "-p", MASK)),
    (["curl", "-u", "me:hunter2", "u"], ("curl", "-u", f"me:{MASK}", "u")),
    (["env", "API_KEY=abc", "x"], ("env", f"API_KEY={MASK}", "x")),
    (["sh", "-c", "echo $X; TOKEN=abc x"], ("sh", "-c", f"echo $X; TOKEN={MASK} x")),
    (["git", "clone", f"https://{GITHUB}@g/x"], ("git", "clone", f"https://{MASK}@g/x")),
]


@pytest.mark.parametrize(("argv", "shown"), ARGVS)
def test_command_lines(argv: list[str], shown: tuple[str, ...]) -> None:
    assert mask_argv(argv) == shown


def test_variables_by_name_and_by_value() -> None:
    given_ = (("HF_TOKEN", "abc"), ("URL", "redis://:pw@h/0"), ("SEED", "1"), ("EMPTY_KEY", ""))
    assert mask_variables(given_) == (
        ("HF_TOKEN", MASK),
        ("URL", f"redis://:{MASK}@h/0"),
        ("SEED", "1"),
        ("EMPTY_KEY", ""),
    )


def test_the_same_value_is_hidden_elsewhere() -> None:
    variables = {"MY_TOKEN": "s3cr3t-99", "SSH_AUTH_SOCK": "/tmp/a", "N_KEYS": "123456", "A": "bc"}
    values = secret_values(variables)
    assert values == ("s3cr3t-99",)
    assert mask_values("run --x s3cr3t-99 /tmp/a", values) == f"run --x {MASK} /tmp/a"


@pytest.mark.parametrize("name", ["token", "HF_TOKEN", "apiKey", "client-secret", "db.password"])
def test_names_that_say_it(name: str) -> None:
    assert is_secret_option(name)


def test_what_hides_is_the_callers_choice() -> None:
    assert mask_argv(["x", "--token=abc"], lambda value: f"<{len(value)}>") == ("x", "--token=<3>")


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "-a", "--a ", "mysql ", "eyJ-", "?a", 'a="', "x://", "sk-", "-----BEGIN "],
)
def test_a_long_text_takes_no_longer_than_it_is_long(piece: str) -> None:
    """With a search that goes back again and again this would not end today."""
    mask_text(piece * (400_000 // len(piece)))
