"""`python -m evaluation PROBLEM FILE`."""

import json
from dataclasses import replace

from device_evaluations import GATHER, MEAN, on_h200

from evaluation.__main__ import main, summarise


def arguments(data_folder, tmp_path, name):
    return [
        str(data_folder / "problems" / "1_affine.py"),
        str(data_folder / "candidates" / f"{name}.py"),
        "--cache-dir",
        str(tmp_path),
    ]


def test_a_correct_file_is_zero_and_json_has_the_whole_evaluation(data_folder, tmp_path, capsys):
    command = [*arguments(data_folder, tmp_path, "correct"), "--json", "--stage", "correctness", "--draws", "2"]
    assert main(command) == 0
    evaluation = json.loads(capsys.readouterr().out)
    assert evaluation["status"] == "PASSED"
    assert len(evaluation["correctness"]["draws"]) >= 2


def test_a_wrong_file_is_one_and_says_why(data_folder, tmp_path, capsys):
    assert main([*arguments(data_folder, tmp_path, "half_result"), "--stage", "correctness"]) == 1
    out = capsys.readouterr().out
    assert "INCORRECT_STRUCTURE" in out
    assert "float16" in out


def test_an_unknown_problem_is_two_and_one_sentence(data_folder, tmp_path, capsys):
    command = ["level1/24_row_sofmax", *arguments(data_folder, tmp_path, "correct")[1:]]
    assert main(command) == 2
    assert "24_row_softmax" in capsys.readouterr().err


def test_on_a_device_both_kinds_of_time_are_told():
    found = on_h200(MEAN)
    lines = summarise(found).splitlines()
    assert "device time: speed-up 2.446 [2.304, 2.601], candidate 1.57 us, reference 3.87 us" in lines
    assert "end to end: speed-up 0.737 [0.265, 1.439], candidate 75.2 us, reference 63.0 us" in lines
    assert "bounded by the judge's clock: at least 1.20 us of device time" in lines
    assert "launch-bound: a call is so short that the speed-up says little about the kernel" in lines


def test_on_a_cpu_there_is_one_kind_of_time():
    found = on_h200(GATHER)
    on_cpu = replace(found, timing=replace(found.timing, end_to_end=None, attested_us=None, conditions=[]))
    lines = summarise(on_cpu).splitlines()
    assert lines[2] == "speed-up: 0.606 [0.591, 0.618], candidate 9.1 us, reference 5.5 us"
    assert not [line for line in lines if "device" in line or "bound" in line]
