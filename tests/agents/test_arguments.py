"""What a model wrote as arguments: taken where it can only mean one thing, refused where it cannot be known."""

from __future__ import annotations

import json

import pytest

from agents.tools.arguments import as_json, parse_arguments

KERNEL = 'a = [1, ]  # "quoted", }\n\tb = "\\n"\n'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kernel_code": KERNEL}),
        f"  {json.dumps({'kernel_code': KERNEL})}\n",
        f"```json\n{json.dumps({'kernel_code': KERNEL})}\n```",
        f"```\n{json.dumps({'kernel_code': KERNEL}, indent=1)}\n```\n",
        json.dumps(json.dumps({"kernel_code": KERNEL})),
        json.dumps({"kernel_code": KERNEL})[:-1] + ",}",
        json.dumps({"kernel_code": KERNEL})[:-1] + " ,\n }",
        json.dumps({"kernel_code": KERNEL}).replace("\\n\\tb", "\n\tb"),
        f"```json\n{json.dumps({'kernel_code': KERNEL})[:-1]},\n}}\n```",
    ],
    ids=[
        "plain",
        "spaces",
        "fence",
        "bare fence",
        "encoded twice",
        "comma",
        "comma, lines",
        "raw lines",
        "all at once",
    ],
)
def test_what_can_only_mean_one_thing_is_taken(text: str) -> None:
    assert parse_arguments(text) == {"kernel_code": KERNEL}
    assert json.loads(as_json(text)) == ({"kernel_code": KERNEL})


@pytest.mark.parametrize(
    "text",
    [
        '{"kernel_code": "impo',
        '{"kernel_code": "a"',
        "{'kernel_code': 'a'}",
        '{"kernel_code": "a"} {"kernel_code": "b"}',
        '{}{"kernel_code": "a"}',
        'Here it is: {"kernel_code": "a"}',
        '```json\n{"kernel_code": "a"}\n```\nand more',
        '{"kernel_code": "a",, "b": 1}',
        "{,}",
        '{"a": [,]}',
        "[1]",
        "null",
        '"text"',
        "[" * 100_000,
        "1" * 5000,
    ],
)
def test_what_cannot_be_known_stays_wrong_and_goes_back_as_nothing(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse_arguments(text)
    assert as_json(text) == "{}"


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_nothing_means_no_arguments(text: str) -> None:
    assert parse_arguments(text) == {} and as_json(text) == (text.strip() or "{}")


def test_well_formed_arguments_go_back_to_the_letter() -> None:
    assert as_json('{"b":1,  "a": "\\u00e9"}') == '{"b":1,  "a": "\\u00e9"}'
