"""One cell for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_cell import Cell

from agents.trajectory import Trajectory
from problems.library import Library
from problems.problem import Problem


@pytest.fixture
def problem() -> Problem:
    return Library().load("level1/23_virtual_all_reduce_mean")


@pytest.fixture
def cell(tmp_path: Path, problem: Problem) -> Cell:
    return Cell(tmp_path, problem)


@pytest.fixture
def trajectory(cell: Cell) -> Iterator[Trajectory]:
    with Trajectory(cell.path) as opened:
        yield opened
