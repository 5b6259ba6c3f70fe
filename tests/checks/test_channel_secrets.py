"""A channel of the workspace's settings is given no secret literally: the file is committed."""

import json

import pytest
from test_rules import found

HERE = ".halo/settings.yaml"


def settings(**params):
    connect = {"type": "webhook", "params": {"url": "https://hooks.example.com", **params}}
    return {
        HERE: json.dumps({"general": {"delivery": {"channels": {"ops": {"connect": connect}}}}}, indent=1)
    }


@pytest.mark.parametrize("secret", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "words"])
def test_a_literal_secret_is_an_error_at_its_line(secret):
    ((source, line, message),) = found("committed-secret", **settings(secret=secret))
    assert (source, line) == (f"workspace:{HERE}", 10)
    assert message.startswith("general.delivery.channels.ops.connect.params.secret stands in a file")
    assert secret not in message


def test_a_name_of_a_variable_is_none():
    assert found("committed-secret", **settings(secret="<<HOOK>>", private="true")) == []
