"""The state of the code: its commit, and as a patch whatever differs from it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PATCH_LIMIT_BYTES = 20 * 2**20
"""A larger patch is not kept; its hash is."""
UNTRACKED_LIMIT_BYTES = 2 * 2**20
"""A larger untracked file is left out of the patch, and named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The state of the code. With `patch` applied to `commit` it can be had again."""

    commit: str | None
    patch_sha256: str | None
    """Hash of all differences from the commit, untracked files included; None when there are none."""
    note: str = ""
    """Why one of them is missing."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Untracked files that are too large for the patch, with their bytes."""


def read_checkout(folder: Path) -> tuple[Checkout, bytes]:
    """The state of the folder's checkout, and the patch (empty when it is clean or too large)."""
    try:
        commit = _git(folder, {}, "rev-parse", "HEAD").decode().strip()
        left_out = _large_untracked(folder)
        patch = _patch(folder, left_out)
    except FileNotFoundError:
        return Checkout(commit=None, patch_sha256=None, note="git is not installed"), b""
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        return Checkout(commit=None, patch_sha256=None, note=f"git cannot read the checkout: {said}"), b""
    sha256 = hashlib.sha256(patch).hexdigest() if patch else None
    if len(patch) > PATCH_LIMIT_BYTES:
        note = f"the patch has {len(patch)} bytes and is not kept"
        return Checkout(commit=commit, patch_sha256=sha256, note=note, left_out=left_out), b""
    return Checkout(commit=commit, patch_sha256=sha256, left_out=left_out), patch


def _large_untracked(folder: Path) -> dict[str, int]:
    listed = _git(folder, {}, "ls-files", "--others", "--exclude-standard", "-z", "--", ".").decode()
    sizes = {name: (folder / name).lstat().st_size for name in listed.split("\0") if name}
    return {name: size for name, size in sizes.items() if size > UNTRACKED_LIMIT_BYTES}


def _patch(folder: Path, left_out: dict[str, int]) -> bytes:
    """All differences from HEAD as one patch, made in an index and an object folder of its own."""
    objects = _git(folder, {}, "rev-parse", "--path-format=absolute", "--git-path", "objects").decode().strip()
    with tempfile.TemporaryDirectory(prefix="kernelsweep-") as scratch:
        apart = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": scratch,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        _git(folder, apart, "read-tree", "HEAD")
        _git(folder, apart, "add", "--all", "--", ".", *(f":(exclude,literal){name}" for name in left_out))
        return _git(folder, apart, "diff", "--cached", "--binary", "HEAD")


def _git(folder: Path, variables: dict[str, str], *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=True).stdout
