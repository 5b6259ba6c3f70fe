"""What is taken for a credential, and what only speaks of one."""

import random
import string

import pytest

from halo.checks.credentials import credential_in

CREDENTIALS = [
    "DB: postgresql://ledger:Zq8mT4kPw2vX@10.0.0.3:5432/x",
    "postgres://admin:t7Kq9vLx2Zpw@db.example.com/ledger",
    "redis://:s3cr3tValue9@cache:6379",
    "git clone https://bot:hunter2@git.example.org/x.git",
    "amqp://guest:guest@broker.example.org",
    "password: t7Kq9vLx2Zpq",
    "The admin password is t7Kq9vLx2Zpw.",
    "password: Sommer2024!Berlin",
    "token: qWeRtZuIoPxY",
    "api_key: 550e8400-e29b-41d4-a716-446655440000",
    "token: 9f8e7d6c5b4a39281706f5e4",
    "secret=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
]

NONE = [
    "postgres://user:password@db/x",
    "postgres://user:db_password@db/x",
    "postgres://user:<password>@db/x",
    "postgres://user:{{db.params.password}}@db/x",
    "postgres://user:$DB_PASS@db/x",
    "postgres://user:${DB_PASS}@db/x",
    "postgres://user:<<DB_PASSWORD>>@db/x",
    "postgres://user:xxx@db/x",
    "postgres://postgres:postgres@localhost:5432/x",
    "http://localhost:8080/x@y",
    "see https://example.org/a:b@c",
    "secret: https://example.org/where-to-find-it-2024",
    "password: at-least-12-characters",
    "password is argon2id-hashed",
    "A password has 12 characters or more, with digits.",
    "The token: never longer than eight characters.",
    "token: gpt-4o-mini-2024-07-18",
    "token: 2026-01-15T10:00:00Z",
    "token: sha256-based-signature",
    "token: AES256GCM-v1-key",
    "token: OAuth2PKCE",
    "token: first.last1@Corp.com",
    "tokens: 128000-200000",
    "token_file: /run/secrets/db2/token1",
    "secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:db-a1b2c3",
    "secret: DatabaseCredentialsProvider",
    "secret_key_base: 0123456789abcdef",
    "password: os.environ['DB']",
    "password: aaaaaaaaaa1111",
    "password: t7Kq9vLx",
    "api_key: OPENAI_API_KEY_2",
]


@pytest.mark.parametrize("line", CREDENTIALS)
def test_a_credential(line):
    assert credential_in(line)


@pytest.mark.parametrize("line", NONE)
def test_what_is_none(line):
    assert credential_in(line) == ""


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [(string.ascii_letters + string.digits, 12), (string.hexdigits.lower()[:16], 32)],
)
def test_most_random_values_are_found(alphabet, length):
    """The ones that are missed happen to consist of what looks like words."""
    dice = random.Random(1)
    values = ["".join(dice.choices(alphabet, k=length)) for _ in range(1000)]
    assert sum(bool(credential_in(f"password: {value}")) for value in values) > 900


@pytest.mark.parametrize("run", ["a://", "a://b:", "a://b:c", "x:", "password: aA1", "token=Ab"])
def test_a_long_line_comes_to_an_end(run):
    assert isinstance(credential_in(run * 20_000), str)
