"""Turns a template into one self-contained file in which nothing that a model wrote can act."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Replace what would act, or hide, instead of being read: controls, bidirectional marks, lone surrogates."""
    return _INVISIBLE.sub(_show, text)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if value is None:
        raise ValueError("a page shows a value or the reason of its absence, never None")
    return visible(str(value))


# One for the process, as compiling the templates takes longer than all else about a short cell. Threads may share it.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    auto_reload=False,
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, *, script: str = "", **context: Any) -> str:
    """Render `template` with page.css, and `script` of the templates' folder if one is named, inline.

    The page's policy allows these two by their hashes; nothing else may load or run.
    """
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    code = (TEMPLATES / script).read_text(encoding="utf-8") if script else ""
    scripts = f"'{_digest(code)}'" if script else "'none'"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {scripts}; base-uri 'none'; form-action 'none'"
    )
    return _ENVIRONMENT.get_template(template).render(
        # Ours, and read from the checkout: the only texts beside the pictures that are not escaped.
        style=Markup(style),
        script=Markup(code),
        policy=policy,
        **context,
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
