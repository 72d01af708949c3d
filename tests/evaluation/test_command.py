"""`python -m evaluation PROBLEM FILE`."""

import json

from evaluation.__main__ import main


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
